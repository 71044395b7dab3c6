import Foundation
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
            while scene.sender.downtimes.isEmpty {
                note()
                // Counted before the downtime, because after it another one may follow at once.
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
        let (before, after, downtimes) = try await Stage(maximumStreams: 0, settings: Self.settings).run {
            actor, scene in
            scene.sender.send(count: 3)
            while scene.server.connections.count < 2 { await actor.loop.pause(.milliseconds(5)) }
            let before = scene.gateway.state
            for connection in scene.server.connections { connection.allow(1) }
            await scene.sender.untilAnswered(3)
            return (before, scene.sender.stateWhenAnswered, scene.sender.downtimes.count)
        }
        #expect(before == .connecting)
        #expect(after == .open)
        #expect(downtimes == 0)
    }

    /// Whoever is told gives its pushes to another worker meanwhile.
    @Test(arguments: [true, false])
    func `counts as out of reach soon, be it new or not, and no more when it allows one`(
        isNew: Bool
    ) async throws {
        var settings = Self.settings
        settings.readyTime = .milliseconds(200)
        // Far longer than the test lasts.
        settings.responseTime = .seconds(600)
        settings.pingAfterSilence = .seconds(4)
        let (downtime, result) = try await Stage(maximumStreams: isNew ? 0 : 10, settings: settings).run {
            actor, scene in
            if !isNew {
                scene.sender.send(count: 3)
                await scene.sender.untilAnswered(3)
                scene.server.connections[0].allow(0)
                while scene.gateway.freeSlots > 0 { await actor.loop.pause(.milliseconds(5)) }
                // The next connection is like it.
                scene.server.maximumStreams = 0
            }
            scene.sender.send(count: 3, from: 3)
            while scene.sender.downtimes.isEmpty { await actor.loop.pause(.milliseconds(5)) }
            let downtime = scene.sender.downtimes[0].error
            for connection in scene.server.connections { connection.allow(10) }
            await scene.sender.untilAnswered(isNew ? 3 : 6)
            return (downtime, scene.sender.stateWhenAnswered)
        }
        #expect(downtime.hasSuffix("takes pushes after 0.2 seconds"))
        #expect(result == .open)
    }

    /// A process that was stopped, or a machine, comes back with as many requests in flight as the server allows.
    @Test func `is not meant by a server that has as many as it allows while the worker stood still`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let (standstill, interval) = (settings.readyTime + settings.checkInterval, settings.checkInterval)
        let held = Held()
        let downtimes = try await Stage(
            maximumStreams: 2, settings: settings, respond: { held.requests.append($0) }
        ).run { actor, scene in
            scene.sender.send(count: 2)
            await held.until(count: 2)
            scene.gateway.requestCapacity()
            usleep(UInt32(standstill / .microseconds(1)))
            // The check that was due is first.
            await actor.loop.pause(interval)
            for request in held.requests { request.answer() }
            await scene.sender.untilAnswered(2)
            #expect(scene.gateway.state == .open)
            return scene.sender.downtimes.count
        }
        #expect(downtimes == 0)
    }
}
