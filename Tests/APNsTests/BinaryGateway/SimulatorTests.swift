import APNsSimulator
import Cryptography
import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(1))) struct `The simulator's binary interface` {
    /// Sends so many pushes and returns what became of them, and what the simulator counted.
    private func send(
        _ count: Int, grace: Duration = .seconds(2), rules: Rules
    ) async throws -> (tally: [String: Int], seen: Snapshot) {
        let folder = FileManager.default.temporaryDirectory.appending(path: "binary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = Simulator.Configuration(folder: folder)
        configuration.binaryPort = 0
        configuration.rules = rules
        let simulator = try await Simulator.start(configuration)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let tally = try await loop.run { _ in
            var binary = BinarySettings()
            binary.grace = grace
            let gateway = try BinaryGateway(
                endpoint: Endpoint(
                    host: "127.0.0.1", port: simulator.binaryPort ?? 0,
                    authorities: try TrustStore(adding: [simulator.authority.certificate])),
                identity: try simulator.authority.clientCertificate(topic: "com.example.App").identity,
                settings: .brisk, binary: binary, loop: loop)
            let sender = Sender(gateway)
            sender.send(count: count)
            await sender.untilAnswered(count)
            gateway.close()
            return sender.tally
        }
        return (tally, await simulator.stop())
    }

    @Test func `counts and takes what breaks no rule`() async throws {
        let (tally, seen) = try await send(500, grace: .milliseconds(500), rules: Rules())
        #expect(tally == ["accepted": 500])
        #expect(seen.accepted == 500)
        #expect(seen.topics == ["com.example.App": 500])
        #expect(seen.repeated == 0)
    }

    @Test(arguments: [
        (Refusal.badDeviceToken, "400 BadDeviceToken"), (.payloadTooLarge, "413 PayloadTooLarge"),
        (.topicDisallowed, "400 BadTopic"), (.tooManyRequests, "500 InternalServerError"),
    ])
    func `names the push that a rule refuses, and looks at none behind it`(
        refusal: APNsSimulator.Refusal, result: String
    ) async throws {
        let rules = Rules(outcomes: [OutcomeRule(.refuse(.init(refusal)), tokenPrefix: "0000000000000007")])
        let (tally, seen) = try await send(20, rules: rules)
        #expect(tally == ["accepted": 19, result: 1])
        #expect(seen.refused == [refusal.rawValue: 1])
        #expect(seen.arrived == 20)
        #expect(seen.connections == 2)
    }

    @Test func `P46: shuts down after so many pushes, and what follows goes over another connection`() async throws {
        let rules = Rules(connections: ConnectionRules(goAwayAfter: 8))
        let (tally, seen) = try await send(20, rules: rules)
        #expect(tally == ["accepted": 20])
        #expect(seen.accepted == 20)
        #expect(seen.repeated == 0)
        #expect(seen.connections == 3)
    }
}
