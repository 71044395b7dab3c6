import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// Pushes through a gateway, with a server that does anything that HTTP/2 allows, at random.
@Suite(.timeLimit(.minutes(10))) struct `Whatever a server does` {
    private static let count = 1000

    /// The sender's precondition checks that no ticket comes back twice.
    @Test(arguments: UInt64(1)...6) func `each push ends once, and none goes out again that was taken`(seed: UInt64)
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 3
        settings.responseTime = .milliseconds(1500)
        settings.drainTime = .seconds(2)
        let server = MoodyServer(seed: seed)
        let (results, inFlight) = try await Stage(
            maximumStreams: 40, settings: settings, respond: { server.respond(to: $0) }
        ).run { _, scene in
            scene.sender.send(Sender.push(bytes: server.number(in: 2...5120)), count: Self.count)
            await scene.sender.untilAnswered(Self.count)
            return (scene.sender.results, scene.gateway.inFlightCount)
        }
        #expect(results.count == Self.count)
        #expect(inFlight == 0)
        #expect(server.takenTwice.isEmpty)
        let accepted = results.filter { $0.value == "accepted" }.keys.map {
            APNsID(root: 7, key: Int64($0)).description
        }
        #expect(server.taken.isSuperset(of: accepted))
        #expect(accepted.count > Self.count / 4)
    }
}

/// Decides at random what to do with each request. Used only on the loop of one test.
private final class MoodyServer: @unchecked Sendable {
    private var generator: SeededGenerator
    /// The `apns-id` of requests that were answered with 200, and of those that came again afterwards.
    private(set) var taken: Set<String> = []
    private(set) var takenTwice: [String] = []

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    func number(in range: ClosedRange<Int>) -> Int { .random(in: range, using: &generator) }

    func respond(to request: MockAPNs.Request) {
        if let id = request.fields["apns-id"], taken.contains(id) { takenTwice.append(id) }
        switch number(in: 0...99) {
        case 0..<10: refuse(request)
        case 10..<14: request.connection.reset(request.streamID, .refusedStream)
        case 14..<16: request.connection.reset(request.streamID, ErrorCode(rawValue: UInt32(number(in: 0...15))))
        case 16..<19: answerHeadOnly(request)
        case 19..<30: later { self.accept(request) }
        case 30: break  // Silence.
        case 31: request.connection.cut()
        case 32: leave(request)
        case 33..<36:
            changeSettings(of: request.connection)
            accept(request)
        default: accept(request)
        }

        func later(_ action: @escaping () -> Void) {
            request.connection.stream.loop.schedule(after: .milliseconds(number(in: 0...30)), action)
        }
    }

    private func accept(_ request: MockAPNs.Request) {
        guard !request.connection.isClosed else { return }
        if let id = request.fields["apns-id"] { taken.insert(id) }
        request.answer()
    }

    private func refuse(_ request: MockAPNs.Request) {
        let bodies = ["", "null", #"{"reason":"BadDeviceToken"}"#, #"{"reason":"Unregistered","timestamp":1}"#]
        let status = [400, 410, 413, 429, 500, 503, 520].randomElement(using: &generator)!
        request.answer(status, body: bodies.randomElement(using: &generator)!)
    }

    private func answerHeadOnly(_ request: MockAPNs.Request) {
        if let id = request.fields["apns-id"] { taken.insert(id) }
        request.connection.answerHead(request.streamID, 200)
    }

    /// Sends GOAWAY that covers everything that has arrived. A server may exclude only requests that it has not acted
    /// on.
    private func leave(_ request: MockAPNs.Request) {
        let debug = ["", "null", #"{"reason":"Shutdown"}"#, String(repeating: "x", count: 6000)]
        request.connection.goAway(
            last: number(in: 0...1) == 0 ? nil : 0x7FFF_FFFF, debug: debug.randomElement(using: &generator)!)
        accept(request)
    }

    private func changeSettings(of connection: MockAPNs.Connection) {
        var settings = Settings()
        settings.headerTableSize = [0, 64, 128, 4096, 65_536].randomElement(using: &generator)!
        settings.initialWindowSize = [0, 100, 5000, 65_535].randomElement(using: &generator)!
        settings.maximumConcurrentStreams = [0, 1, 10, 100].randomElement(using: &generator)!
        connection.announce(settings)
        // After a while the server raises limits that it had lowered.
        connection.stream.loop.schedule(after: .milliseconds(number(in: 0...50))) {
            settings.initialWindowSize = max(1000, settings.initialWindowSize)
            settings.maximumConcurrentStreams = 40
            connection.announce(settings)
        }
    }
}
