import APNs
import Cryptography
import PostgresStore
import QueueCore
import Transport

/// Queries the feedback service for the queues that use the binary interface. Stores its lists, because the service
/// clears a list when it is read. ``ReportsDuty`` acts on what was stored.
///
/// It runs apart from the other duties: a list may take ten minutes, and an unreachable host ten seconds for each
/// queue.
///
/// Belongs to the engine's event loop.
final class FeedbackDuty: Duty {
    let name = "feedback"
    /// How often the duty looks for queues that are due. How often a queue is due is a setting of the queue.
    let pause = Duration.seconds(10)
    /// How long one worker queries queues before another worker may have its turn.
    private static let longest = Duration.seconds(30)
    /// The time for which no other worker reads a list after one has begun to.
    private static let pollLease = Duration.seconds(900)

    private let store: RetryingConnection
    private let settings: EngineSettings
    private let masterKeys: MasterKeys?
    private let loop: EventLoop
    private let report: (EngineEvent) -> Void
    private var service: FeedbackService?
    private var isStopped = false

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        settings = context.settings
        masterKeys = context.masterKeys
        loop = context.loop
        report = context.report
    }

    /// Stops reading a list, once what was read is stored.
    func stop() {
        isStopped = true
        service?.stop()
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        let end = ContinuousClock.now + Self.longest
        while !isStopped, ContinuousClock.now < end, try await lease.mayContinue(), try await askNext() {}
    }

    /// Queries one queue that is due. Returns false if there is none. An error of one queue does not affect the others.
    func askNext() async throws(PostgresError) -> Bool {
        let connection = try await store.connection()
        guard let queueID = try await connection.takeFeedbackPoll(lease: Self.pollLease),
            let queue = try await connection.queueSettings([queueID]).first
        else { return false }
        do {
            let count = try await read(queue)
            try await store.connection().noteFeedbackRead(of: queueID)
            if count > 0 { report(.feedbackRead(queue: queue.name.description, count: count)) }
        } catch let error as PostgresError {
            throw error
        } catch {
            let failures = try await store.connection().noteFeedbackFailed(of: queueID, problem: "\(error)")
            if failures == 1 { report(.feedbackUnreachable(queue: queue.name.description, reason: "\(error)")) }
        }
        return true
    }

    /// Reads the list of a queue's certificate and stores it in batches.
    private func read(_ queue: QueueSettings) async throws -> Int {
        guard let credential = queue.credential,
            case .certificate(let certificate) = try OpenedCredential(credential, under: masterKeys)
        else { throw CredentialProblem.noCertificate }
        guard let endpoint = settings.feedbackEndpoint(of: queue.name.environment) else {
            throw CredentialProblem.noBinaryGateway
        }
        let service = try FeedbackService(endpoint: endpoint, identity: try certificate.identity(), loop: loop)
        // The service clears a list when it is read, so nothing is read once the worker stops.
        guard !isStopped else { throw FeedbackService.Failure.stopped }
        self.service = service
        defer { self.service = nil }
        return try await service.read { records in
            // The service has cleared these records, so the worker tries to store them until it succeeds or ends.
            let kept: Void? = await store.persist {
                try await $0.keepFeedback(
                    of: queue.queueID, readWith: certificate.fingerprint, tokens: records.map(\.token),
                    times: records.map { Int64($0.time) })
            }
            if kept == nil { throw FeedbackProblem.notKept(records.count) }
        }
    }
}

/// The reason why a list of the feedback service is not complete.
enum FeedbackProblem: Error, CustomStringConvertible {
    case notKept(Int)

    var description: String {
        switch self {
        case .notKept(let count):
            "PostgreSQL refused \(count) records of its list, and the service does not send them again"
        }
    }
}
