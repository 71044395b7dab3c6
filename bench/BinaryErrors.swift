import APNs
import APNsSimulator
import Cryptography
import Foundation
import TestSupport
import Transport

/// Measures bad tokens over the binary interface. Each error ends its connection, and the server throws away the pushes
/// that were written after the bad one.
enum BinaryErrors {
    static func measure() async throws {
        for (share, count) in [(0, 20_000), (0.001, 20_000), (0.01, 20_000), (0.1, 2000)] {
            try await measure(share: share, count: count)
        }
    }

    private static func measure(share: Double, count: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "bench-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.binaryPort = 0
        configuration.rules.latency = .milliseconds(20) ... .milliseconds(40)
        configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.badDeviceToken)), share: share)]
        let simulator = try await Simulator.start(configuration)
        let loop = EventLoop(name: "bench")
        defer { loop.shutDown() }
        let start = ContinuousClock.now
        let again = try await loop.run { _ in
            let gateway = try BinaryGateway(
                endpoint: Endpoint(
                    host: "127.0.0.1", port: simulator.binaryPort ?? 0,
                    authorities: try TrustStore(adding: [simulator.authority.certificate])),
                identity: try simulator.authority.clientCertificate(topic: "com.example.App").identity, loop: loop)
            let sender = Sender(gateway)
            sender.send(count: count)
            await sender.untilAnswered(count)
            gateway.close()
            return sender.repeatedCount
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        let seen = await simulator.stop()
        print(
            "\(share * 100) % bad: \(count) pushes, \(Double(count + again) / Double(count)) written for each, "
                + "\(seen.connections) connections, \(Int(Double(count) / seconds)) pushes a second")
    }
}
