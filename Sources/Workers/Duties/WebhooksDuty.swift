import Cryptography
import HTTP1
import PostgresStore
import QueueCore
import Transport

/// Sends tenants the reports about their devices, in the order that the listing duty has assigned.
///
/// A receiver gets one message at a time, and the next one when it has accepted the first. So it misses nothing, and
/// gets nothing twice except after a failure. Receivers are independent of each other. A receiver that does not answer
/// holds one of many places for some seconds, and is then left alone for longer each time. Receivers whose last try
/// failed, or that have never accepted a message, may hold only a part of the places: however many of them hang, there
/// are places for the others.
///
/// It runs apart from the other duties, since it waits for the tenants' servers.
///
/// Belongs to the engine's event loop.
final class WebhooksDuty: Duty {
    let name = "webhooks"
    let pause = Duration.seconds(1)

    /// The time after which another worker goes on with all webhooks if this one is lost. It is short, because a duty
    /// that changes hands too soon does no harm: each message is reserved for the worker that sends it.
    static let lease = Duration.seconds(10)
    /// The maximum number of messages under way at a time.
    private let maximumAtOnce: Int
    /// The maximum number of them to receivers that are in doubt.
    private var maximumInDoubt: Int { maximumAtOnce / 4 }
    /// The maximum number of reports in a message: about 120 KB. A message is in memory until it is answered.
    private static let batch = 250
    /// How long a message is reserved for this worker: longer than the client tries to send it.
    private static let turnLease = Duration.seconds(30)
    private let store: RetryingConnection
    private let masterKeys: MasterKeys
    private let loop: EventLoop
    private let userAgent: String
    private let report: (EngineEvent) -> Void
    private let client: Client
    /// How long a stopping worker waits for an answer.
    private let patience: Duration
    private var isCutOff = false
    /// Raised when a message has ended.
    private let isOver: Signal
    private var underWay = 0
    /// How many of the messages under way are to receivers that are in doubt.
    private var underWayInDoubt = 0
    private var generator = SystemRandomNumberGenerator()

    init(_ context: EngineContext, masterKeys: MasterKeys) {
        store = context.postgres.upkeep
        self.masterKeys = masterKeys
        loop = context.loop
        let version = context.settings.version
        userAgent = version.isEmpty ? "pushq" : "pushq/\(version)"
        report = context.report
        client = Client(rules: context.settings.webhooks, loop: context.loop)
        patience = context.settings.drain
        maximumAtOnce = context.settings.webhooksAtOnce
        isOver = Signal(loop: context.loop)
    }

    /// Ends messages that are not answered before a drain has to end. They are sent again, with the same ids, when
    /// their turns have expired: the receiver is not to blame.
    func stop() {
        isOver.raise()
        loop.schedule(after: patience) { [self] in
            isCutOff = true
            client.stop()
        }
    }

    /// Sends what is due, until nothing is due or under way any more. What is under way goes on if the duty is cut
    /// short, since another worker can send to the other receivers meanwhile: a turn is recorded under its own number.
    func run(_ lease: DutyLease) async throws(PostgresError) {
        while try await lease.mayContinue() {
            if underWay < maximumAtOnce,
                let turn = try await store.connection().takeWebhook(
                    lease: Self.turnLease, atMost: Self.batch, opening: masterKeys,
                    evenInDoubt: underWayInDoubt < maximumInDoubt)
            {
                start(turn)
            } else if underWay > 0 {
                await isOver.wait(atMost: .seconds(1))
            } else {
                return
            }
        }
    }

    func settle() async {
        while underWay > 0 { await isOver.wait(atMost: .seconds(1)) }
    }

    private func start(_ turn: WebhookTurn) {
        underWay += 1
        underWayInDoubt += turn.isInDoubt ? 1 : 0
        loop.startTask { [self] in
            await send(turn)
            underWay -= 1
            underWayInDoubt -= turn.isInDoubt ? 1 : 0
            isOver.raise()
        }
    }

    private func send(_ turn: WebhookTurn) async {
        do {
            try await post(turn)
            let hadFailed = await store.persist { try await $0.noteAccepted(turn) }
            if hadFailed ?? false { report(.webhookBack(tenant: turn.tenant)) }
        } catch {
            guard !isCutOff else { return }
            let delay = Backoff.webhook.delay(afterAttempt: turn.failures + 1, using: &generator)
            let failures = await store.attempt {
                try await $0.noteFailed(turn, problem: "\(error)", pause: max(delay, .seconds(1)))
            }
            if failures == 1 { report(.webhookFailing(tenant: turn.tenant, reason: "\(error)")) }
        }
    }

    private func post(_ turn: WebhookTurn) async throws {
        let address: WebAddress
        do { address = try WebAddress(parsing: turn.url) } catch { throw WebhookProblem.url(error) }
        let secrets = try [turn.sealed, turn.formerSealed].compactMap(\.self).map { sealed in
            try WebhookSecret(sealed: sealed, ofTenant: turn.tenantID, under: masterKeys)
        }
        let message = WebhookMessage(id: "feedback_\(turn.first)_\(turn.last)", body: turn.message)
        let status = try await client.post(
            message.body, to: address, fields: message.fields(at: turn.sentAt, signedWith: secrets),
            userAgent: userAgent)
        if let problem = WebhookProblem(status: status) { throw problem }
    }
}
