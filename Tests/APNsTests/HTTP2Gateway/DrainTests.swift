import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `Draining a gateway` {
    @Test func `awaits what is in flight and says good-bye`() async throws {
        let held = Held()
        let (tally, state, goAway) = try await Stage(respond: { held.requests.append($0) }).run { actor, scene in
            scene.sender.send(count: 20)
            await held.until(count: 20)
            actor.loop.schedule(after: .milliseconds(10)) { for request in held.requests { request.answer() } }
            await scene.gateway.drain()
            let server = scene.server.connections[0]
            while !server.isClosed { await actor.loop.pause(.milliseconds(1)) }
            return (scene.sender.tally, scene.gateway.state, server.goAwayCode)
        }
        #expect(tally == ["accepted": 20])
        #expect(state == .closed)
        #expect(goAway == .noError)
    }

    @Test func `gives up what is not answered in time, and says so`() async throws {
        let held = Held()
        var settings = GatewaySettings.brisk
        settings.drainTime = .milliseconds(30)
        let (tally, losses) = try await Stage(settings: settings, respond: { held.requests.append($0) }).run {
            _, scene in
            scene.sender.send(count: 3)
            await held.until(count: 3)
            held.requests[0].answer()
            await scene.gateway.drain()
            return (scene.sender.tally, scene.sender.lostConnections.map(\.uncertain))
        }
        #expect(tally == ["accepted": 1, "unanswered": 2])
        #expect(losses == [2])
    }

    @Test func `and closing it, even twice, leaves a gateway that sends nothing`() async throws {
        let isSent = try await Stage().run { _, scene in
            scene.gateway.close()
            scene.gateway.close()
            await scene.gateway.drain()
            let token: [UInt8] = [1]
            return scene.gateway.send(
                Sender.push(), to: token.span, apnsID: APNsID(root: 1, key: 1), losses: 0, wasRefused: false, ticket: 1)
        }
        #expect(!isSent)
    }
}
