import TestSupport
import Testing
import Transport

@testable import APNs

/// A front end that answers every request with 500 while others serve.
@Suite(.timeLimit(.minutes(10))) struct `A connection that refuses whatever comes` {
    private static let sick = "500 InternalServerError"

    /// Opens two connections with ten streams in use on each, and lets the first one refuse all of its pushes.
    private func run<Success: Sendable>(
        _ settings: GatewaySettings,
        _ body: @Sendable @escaping (isolated LoopActor, Scene) async throws -> Success
    ) async throws -> Success {
        var settings = settings
        settings.maximumConnections = 2
        let held = Held()
        return try await Stage(
            maximumStreams: 10, settings: settings,
            respond: { request in
                if held.requests.count < 20 { held.requests.append(request) } else { Self.answer(request) }
            }
        ).run { actor, scene in
            scene.sender.send(count: 20)
            await held.until(count: 20)
            // The connection that serves answers first. What it served before the other's refusals does not count
            // against the other.
            for request in held.requests.reversed() { Self.answer(request) }
            await scene.sender.untilAnswered(20)
            return try await body(actor, scene)
        }
    }

    private static func answer(_ request: MockAPNs.Request) {
        guard request.connection.number == 0 else { return request.answer() }
        request.answer(500, body: #"{"reason":"InternalServerError"}"#)
    }

    @Test func `gets no more while another has room`() async throws {
        let tally = try await run(.brisk) { _, scene in
            scene.sender.send(count: 5, from: 100)
            await scene.sender.untilAnswered(25)
            return scene.sender.tally
        }
        #expect(tally == ["accepted": 15, Self.sick: 10])
    }

    @Test func `is replaced when others serve at the same time`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .seconds(2)
        let isReplaced = try await run(settings) { actor, scene in
            var next: UInt64 = 100
            let begun = ContinuousClock.now
            while !scene.server.connections[0].isClosed, begun.duration(to: .now) < .seconds(60) {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(5))
            }
            return scene.server.connections[0].isClosed && !scene.server.connections[1].isClosed
        }
        #expect(isReplaced)
    }

    @Test func `stays when a try is refused and another connection has refused nothing`() async throws {
        let (open, tally) = try await run(.brisk) { actor, scene in
            scene.gateway.tryAnotherConnection()
            await actor.loop.pause(.milliseconds(1))
            let open = scene.gateway.pool.open.count
            scene.sender.send(count: 1, from: 100)
            await scene.sender.untilAnswered(21)
            return (open, scene.sender.tally)
        }
        #expect(open == 2)
        #expect(tally == ["accepted": 11, Self.sick: 10])
    }

    @Test func `makes room for a new one when a try is refused, and there is no other`() async throws {
        let (tally, connections) = try await Stage(respond: Self.answer).run { actor, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            scene.gateway.tryAnotherConnection()
            while !scene.gateway.pool.open.isEmpty { await actor.loop.pause(.milliseconds(1)) }
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(2)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 1, Self.sick: 1])
        #expect(connections == 2)
    }
}
