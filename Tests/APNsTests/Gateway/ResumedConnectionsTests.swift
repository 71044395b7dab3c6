import Cryptography
import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs
@testable import APNsSimulator

@Suite(.timeLimit(.minutes(10))) struct `Connections of a gateway` {
    @Test func `resume the session of the one before`() async throws {
        let (seen, figures) = try await Stage().run { _, scene in
            for number in 1...3 {
                scene.sender.send(count: 1, from: UInt64(number))
                await scene.sender.untilAnswered(number)
                scene.server.connections.last?.cut()
                try await eventually("the end of the connection") { scene.sender.connectionCount == 0 }
            }
            return (
                scene.server.connections.map(\.stream.isResumed), scene.gateway.pool.share.budget.figures
            )
        }
        #expect(seen == [false, true, true])
        #expect(figures.fullHandshakes == 1)
        #expect(figures.resumedHandshakes == 2)
    }

    /// Different tenants, credentials or environments have different gateways, with the same loop and the same limits.
    @Test func `never resume what another gateway has left`() async throws {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let seen = try await loop.run { _ in
            let authority = try MockAPNs.authority.get()
            let server = try MockAPNs(
                on: loop, clientCertificates: .required(issuedBy: authority.certificate), respond: { $0.answer() })
            defer { server.close() }
            let share = ConnectionShare(of: ConnectionBudget(limit: 10, loop: loop))
            let senders = try ["com.example.one", "com.example.two", "com.example.three"].map { name in
                Sender(
                    try HTTP2Gateway(
                        endpoint: try server.endpoint,
                        credential: .certificate(try authority.issueClient(.init(userID: name))), settings: .brisk,
                        loop: loop, share: share))
            }
            for round in 1...2 {
                for sender in senders {
                    sender.send(count: 1, from: UInt64(round))
                    await sender.untilAnswered(round)
                    server.connections.last?.cut()
                    try await eventually("the end of the connection") { sender.connectionCount == 0 }
                }
            }
            for sender in senders { (sender.gateway as? HTTP2Gateway)?.close() }
            return try server.connections.map { connection in
                "\(try connection.stream.peerCertificate?.subject.userID ?? "nobody"): \(connection.stream.isResumed)"
            }
        }
        #expect(
            seen == [
                "com.example.one: false", "com.example.two: false", "com.example.three: false",
                "com.example.one: true", "com.example.two: true", "com.example.three: true",
            ])
    }

    @Test func `resume no session of one that ended before it had answered anything`() async throws {
        let seen = try await Stage { request in
            if request.connection.number == 1 { request.connection.cut() } else { request.answer() }
        }.run { _, scene in
            scene.sender.maximumLosses = 2
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            scene.server.connections.last?.cut()
            try await eventually("the end of the connection") { scene.sender.connectionCount == 0 }
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(2)
            return scene.server.connections.map(\.stream.isResumed)
        }
        #expect(seen == [false, true, false])
    }

    /// nginx does this after a number of requests on a connection.
    @Test func `resume the session of one that was asked to end before its requests were answered`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(60)
        let seen = try await Stage(settings: settings) { request in
            if request.connection.number == 0 { request.connection.goAway() } else { request.answer() }
        }.run { _, scene in
            scene.sender.send(count: 1)
            try await eventually("another connection") { scene.server.connections.count == 2 }
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(1)
            scene.server.requests[0].answer()
            await scene.sender.untilAnswered(2)
            return scene.server.connections.map(\.stream.isResumed)
        }
        #expect(seen == [false, true])
    }

    @Test func `of the binary interface resume them as well`() async throws {
        let outcome = try await BinaryStage { arrival in
            arrival.connection < 2 ? .error(status: 8, identifier: arrival.notification.identifier ?? 0) : .silence
        }.run { scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            scene.note("resumed", scene.server.connections.count { $0.stream.isResumed })
            scene.note("connections", scene.server.connections.count)
        }
        #expect(outcome.notes == ["resumed": 2, "connections": 3])
    }

    /// A restarted server has other ticket keys, but accepts the connection.
    @Test func `go on when the server was started again, and are resumed again after that`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "resumed-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        let first = try await Simulator.start(configuration)
        configuration.port = first.port
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let identity = try first.authority.clientCertificate(topic: "com.example.App").identity
        let authorities = try TrustStore(adding: [first.authority.certificate])
        let (port, restarted) = (first.port, configuration)
        let seen = try await loop.run { _ in
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "localhost", port: port, authorities: authorities),
                credential: .certificate(identity), settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            var simulator = first
            var counted: [Snapshot] = []
            for round in 1...4 {
                if round == 3 {
                    counted.append(await simulator.stop())
                    simulator = try await Simulator.start(restarted)
                }
                await simulator.dropConnections()
                try await eventually("the end of the connection") { sender.connectionCount == 0 }
                sender.send(count: 1, from: UInt64(round))
                await sender.untilAnswered(round)
            }
            counted.append(await simulator.stop())
            let figures = gateway.pool.share.budget.figures
            return (counted, [figures.fullHandshakes, figures.resumedHandshakes, figures.failedAttempts], sender.tally)
        }
        #expect(seen.0.map(\.fullHandshakes) == [1, 1])
        #expect(seen.0.map(\.resumedHandshakes) == [1, 1])
        #expect(seen.1 == [2, 2, 0])
        #expect(seen.2 == ["accepted": 4])
    }
}
