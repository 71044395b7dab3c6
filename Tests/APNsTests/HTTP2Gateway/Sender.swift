import QueueCore
import Transport

@testable import APNs

/// What an engine does with a gateway, in small: keeps the gateway full until all pushes are out, sends the untouched again if
/// asked to, and remembers what became of each. Waits are ended by events.
final class Sender: PushGatewayHandler {
    let gateway: any PushGateway
    private(set) var results: [UInt64: String] = [:]
    private(set) var batchSizes: [Int] = []
    private(set) var refusedCredentials: [(reason: Reason, detail: String)] = []
    private(set) var outages: [Outage] = []
    private(set) var repeatedCount = 0
    private(set) var stateWhenAnswered = GatewayState.idle
    var resendsUntouched = true
    private var waiting: [UInt64] = []
    private var push: PreparedPush?
    private var wakeUp: (isDue: () -> Bool, continuation: CheckedContinuation<Void, Never>)?

    init(_ gateway: any PushGateway) {
        self.gateway = gateway
        gateway.handler = self
    }

    static func push(body: String = #"{"aps":{"alert":"hello"}}"#, bytes: Int? = nil) -> PreparedPush {
        let body = bytes.map { [UInt8](repeating: UInt8(ascii: " "), count: $0) } ?? Array(body.utf8)
        return PreparedPush(
            topic: "com.example.App", pushType: .alert, priority: .immediate, expiration: .oneAttempt,
            collapseID: .apnsID, body: body)
    }

    /// Sends as many pushes with tickets from `first` on.
    func send(_ push: PreparedPush = Sender.push(), count: Int, from first: UInt64 = 0) {
        self.push = push
        waiting += (first..<(first + UInt64(count)))
        pump()
    }

    private func pump() {
        guard let push else { return }
        while let ticket = waiting.first {
            // The ticket in big-endian order, and what makes it 32 bytes.
            let token =
                (0..<8).map { UInt8(truncatingIfNeeded: ticket >> (56 - 8 * UInt64($0))) }
                + [UInt8](repeating: 0xAB, count: 24)
            let id = APNsID(root: 7, key: Int64(ticket))
            guard gateway.send(push, to: token.span, apnsID: id, body: nil, ticket: ticket) else { return }
            waiting.removeFirst()
        }
    }

    func answered(_ answers: [Answer], by gateway: any PushGateway) {
        batchSizes.append(answers.count)
        stateWhenAnswered = gateway.state
        for answer in answers {
            let text = Self.text(of: answer.result)
            if text == "untouched", resendsUntouched {
                waiting.append(answer.ticket)
                repeatedCount += 1
            } else {
                precondition(results.updateValue(text, forKey: answer.ticket) == nil, "a ticket came back twice")
            }
        }
        pump()
        wake()
    }

    private static func text(of result: Answer.Result) -> String {
        switch result {
        case .accepted: "accepted"
        case .refused(let refusal): "\(refusal.status) \(refusal.reason.text)"
        case .unanswered: "unanswered"
        case .untouched: "untouched"
        }
    }

    func capacityChanged(of gateway: any PushGateway) {
        if case .unreachable(let outage) = gateway.state { outages.append(outage) }
        pump()
        wake()
    }

    func credentialRefused(_ reason: Reason, detail: String, by gateway: any PushGateway) {
        refusedCredentials.append((reason, detail))
        wake()
    }

    /// How many pushes came to each result.
    var tally: [String: Int] {
        results.values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    /// How many connections its gateway holds.
    var connectionCount: Int { (gateway as? any PoolingGateway)?.connectionCount ?? 0 }

    func untilAnswered(_ count: Int) async {
        await until { self.results.count >= count }
    }

    func until(_ isDue: @escaping () -> Bool) async {
        await withCheckedContinuation { continuation in
            if isDue() { continuation.resume() } else { wakeUp = (isDue, continuation) }
        }
    }

    func wake() {
        guard let waiting = wakeUp, waiting.isDue() else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}

extension GatewaySettings {
    /// Times of a test: everything happens soon.
    static var brisk: GatewaySettings {
        var settings = GatewaySettings()
        settings.growthInterval = .milliseconds(5)
        settings.backoff = Backoff(base: .milliseconds(5), cap: .milliseconds(50))
        settings.stableTime = .zero
        return settings
    }
}

/// A mock server and a sender with its gateway, on one loop.
struct Scene {
    let server: MockAPNs
    let gateway: HTTP2Gateway
    let sender: Sender
}

/// Sets a scene: the server does with each request what `respond` says.
struct Stage: Sendable {
    var maximumStreams = 1000
    var settings = GatewaySettings.brisk
    var firstStreamID: UInt32 = 1
    var respond: @Sendable (MockAPNs.Request) -> Void = { $0.answer() }

    func run<Success: Sendable>(
        _ body: @Sendable (isolated LoopActor, Scene) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let server = try MockAPNs(on: loop, maximumStreams: maximumStreams, respond: respond)
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint, credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)),
                settings: settings, loop: loop, firstStreamID: firstStreamID)
            let scene = Scene(server: server, gateway: gateway, sender: Sender(gateway))
            defer {
                gateway.close()
                server.close()
            }
            return try await body(actor, scene)
        }
    }
}
