import Cryptography
import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs
@testable import APNsSimulator

@Suite(.timeLimit(.minutes(10))) struct `A gateway to a server that lowers and raises its limit of streams` {
    @Test func `never opens more than the server allows`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "limits-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.streamLimit = 5
        // Half of the pushes are refused. After two refusals in a row, one stream at a time is allowed, until a push is
        // accepted.
        configuration.rules = Rules(
            latency: .milliseconds(1) ... .milliseconds(5),
            outcomes: [OutcomeRule(.refuse(.init(status: 400, reason: "BadMessageId")), probability: 0.5)],
            connections: ConnectionRules(slowAfterErrors: 2))
        let simulator = try await Simulator.start(configuration)
        let identity = try simulator.authority.clientCertificate(topic: "com.example.App").identity
        let authorities = try TrustStore(adding: [simulator.authority.certificate])
        let port = simulator.port
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let tally = try await loop.run { _ in
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "127.0.0.1", port: port, authorities: authorities),
                credential: .certificate(identity), settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            sender.send(count: 400)
            await sender.untilAnswered(400)
            return sender.tally
        }
        let snapshot = await simulator.stop()
        #expect(tally.values.reduce(0, +) == 400)
        #expect(snapshot.accepted > 0 && snapshot.refused["BadMessageId", default: 0] > 0)
        #expect(snapshot.excessStreams == 0)
    }
}
