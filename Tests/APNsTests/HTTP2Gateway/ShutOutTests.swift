import TestSupport
import Testing
import Transport

@testable import APNs

/// A server may accept connections and allow no streams on them for a while (RFC 9113 §5.1.2).
@Suite(.timeLimit(.minutes(10))) struct `A server that allows no streams yet` {
    private static var settings: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.firstAnswerTime = .milliseconds(20)
        settings.responseTime = .milliseconds(1500)
        return settings
    }

    @Test func `is not in reach, and gets a second connection and no third`() async throws {
        let (states, connections, result) = try await Stage(maximumStreams: 0, settings: Self.settings).run {
            actor, scene in
            scene.sender.send(count: 3)
            var states: Set<String> = []
            let note = {
                if scene.gateway.state == .open { states.insert("open") }
            }
            var connections = 0
            while scene.sender.outages.isEmpty {
                note()
                // Counted before the outage, because after it another one may follow at once.
                connections = scene.server.connections.count
                await actor.loop.pause(.milliseconds(5))
            }
            // Further connections are opened and left meanwhile.
            while scene.server.connections.count < 5 {
                note()
                await actor.loop.pause(.milliseconds(5))
            }
            for connection in scene.server.connections where !connection.isClosed { connection.allow(10) }
            await scene.sender.untilAnswered(3)
            return (states, connections, scene.sender.stateWhenAnswered)
        }
        #expect(states == [])
        #expect(connections == 2)
        #expect(result == .open)
    }

    @Test func `is in reach as soon as it allows one`() async throws {
        let (before, after, outages) = try await Stage(maximumStreams: 0, settings: Self.settings).run { actor, scene in
            scene.sender.send(count: 3)
            while scene.server.connections.count < 2 { await actor.loop.pause(.milliseconds(5)) }
            let before = scene.gateway.state
            for connection in scene.server.connections { connection.allow(1) }
            await scene.sender.untilAnswered(3)
            return (before, scene.sender.stateWhenAnswered, scene.sender.outages.count)
        }
        #expect(before == .connecting)
        #expect(after == .open)
        #expect(outages == 0)
    }
}
