import APNsSimulator
import Cryptography
import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `The simulator's binary interface` {
    /// Sends `count` pushes. Returns their results, what the simulator counted, and how long the first answer took.
    private func send(
        _ count: Int, grace: Duration = .seconds(2), rules: Rules
    ) async throws -> (tally: [String: Int], seen: Snapshot, firstAnswer: Duration) {
        let folder = FileManager.default.temporaryDirectory.appending(path: "binary-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.binaryPort = 0
        configuration.rules = rules
        let simulator = try await Simulator.start(configuration)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (tally, firstAnswer) = try await loop.run { _ in
            var binary = BinarySettings()
            binary.grace = grace
            let gateway = try BinaryGateway(
                endpoint: Endpoint(
                    host: "127.0.0.1", port: simulator.binaryPort ?? 0,
                    authorities: try TrustStore(adding: [simulator.authority.certificate])),
                identity: try simulator.authority.clientCertificate(topic: "com.example.App").identity,
                settings: .brisk, binary: binary, loop: loop)
            let sender = Sender(gateway)
            let start = ContinuousClock.now
            sender.send(count: count)
            await sender.untilAnswered(1)
            let firstAnswer = start.duration(to: .now)
            await sender.untilAnswered(count)
            gateway.close()
            return (sender.tally, firstAnswer)
        }
        return (tally, await simulator.stop(), firstAnswer)
    }

    @Test func `counts and takes what breaks no rule`() async throws {
        let (tally, seen, _) = try await send(500, grace: .milliseconds(500), rules: Rules())
        #expect(tally == ["accepted": 500])
        #expect(seen.accepted == 500)
        #expect(seen.topics == ["com.example.App": 500])
        #expect(seen.repeated == 0)
    }

    @Test(arguments: [
        (DocumentedReason.badDeviceToken, "400 BadDeviceToken"), (.payloadTooLarge, "413 PayloadTooLarge"),
        (.topicDisallowed, "400 BadTopic"), (.tooManyRequests, "500 InternalServerError"),
    ])
    func `names the push that a rule refuses, and looks at none behind it`(
        refusal: DocumentedReason, result: String
    ) async throws {
        let rules = Rules(outcomes: [OutcomeRule(.refuse(.init(refusal)), tokenPrefix: "0000000000000007")])
        let (tally, seen, _) = try await send(20, rules: rules)
        #expect(tally == ["accepted": 19, result: 1])
        #expect(seen.refused == [refusal.rawValue: 1])
        #expect(seen.arrived == 20)
        #expect(seen.connections == 2)
    }

    @Test func `says what is wrong after the rules' latency, and looks at nothing meanwhile`() async throws {
        let latency = Duration.milliseconds(300)
        let rules = Rules(
            latency: latency...latency,
            outcomes: [OutcomeRule(.refuse(.init(.badDeviceToken)), tokenPrefix: "0000000000000007")])
        // The grace is longer than the latency, so the first answer is the packet.
        let (tally, seen, firstAnswer) = try await send(20, grace: .seconds(4), rules: rules)
        #expect(tally == ["accepted": 19, "400 BadDeviceToken": 1])
        #expect(firstAnswer >= latency)
        #expect(firstAnswer < .seconds(4))
        #expect(seen.arrived == 20)
        #expect(seen.repeated == 0)
    }

    @Test func `shuts down after N pushes, and what follows goes over another connection`() async throws {
        let rules = Rules(connections: ConnectionRules(goAwayAfter: 8))
        let (tally, seen, _) = try await send(20, rules: rules)
        #expect(tally == ["accepted": 20])
        #expect(seen.accepted == 20)
        #expect(seen.repeated == 0)
        #expect(seen.connections == 3)
    }
}
