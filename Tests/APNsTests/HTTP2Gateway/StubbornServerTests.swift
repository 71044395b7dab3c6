import Cryptography
import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// Servers that follow HTTP/2 but prevent any progress.
@Suite(.timeLimit(.minutes(10))) struct `A stubborn server` {
    private static var settings: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        settings.responseTime = .milliseconds(1500)
        return settings
    }

    @Test func `that allows no streams at all is unreachable, and tried again`() async throws {
        let (downtime, tally) = try await Stage(maximumStreams: 0, settings: Self.settings).run { actor, scene in
            scene.sender.send(count: 3)
            await scene.sender.until { !scene.sender.downtimes.isEmpty }
            let downtime = scene.sender.downtimes[0]
            while scene.server.connections.count < 2 { await actor.loop.pause(.milliseconds(1)) }
            scene.server.connections[1].allow(10)
            await scene.sender.untilAnswered(3)
            return (downtime, scene.sender.tally)
        }
        #expect(downtime.error.contains("allows no requests"))
        #expect(tally == ["accepted": 3])
    }

    @Test func `that stops allowing streams is replaced while somebody waits`() async throws {
        let (tally, connectionCount) = try await Stage(
            maximumStreams: 1, settings: Self.settings,
            respond: { request in
                if request.connection === request.firstConnection { request.connection.allow(0) }
                request.answer()
            }
        ).run { _, scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 3])
        #expect(connectionCount == 2)
    }

    @Test func `that stops allowing streams is left alone while nobody waits`() async throws {
        let states = try await Stage(
            settings: Self.settings,
            respond: { request in
                request.connection.allow(0)
                request.answer()
            }
        ).run { actor, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            // Twice the time that it would take.
            await actor.loop.pause(.seconds(3))
            return (scene.gateway.state, scene.server.connections.count)
        }
        #expect(states == (.open, 1))
    }

    @Test func `that refuses every stream is not asked in circles`() async throws {
        let arrived = try await Stage(
            settings: Self.settings, respond: { $0.connection.reset($0.streamID, .refusedStream) }
        ).run { _, scene in
            scene.sender.send(count: 10)
            await scene.sender.until { scene.sender.downtimes.count == 2 }
            return scene.server.requests.count
        }
        // Three times on each of two connections.
        #expect((11...60).contains(arrived), "\(arrived) requests")
    }

    /// Answered pushes once still counted as unsent, until the connection accepted no more.
    @Test func `that answers before it has read the bodies, and reads none, gets all pushes`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let (tally, connections) = try await Stage(readsBodies: false, settings: settings).run { actor, scene in
            scene.sender.send(Sender.push(bytes: 4096), count: 400)
            let begun = ContinuousClock.now
            while scene.sender.results.count < 400, begun.duration(to: .now) < .seconds(60) {
                await actor.loop.pause(.milliseconds(5))
            }
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 400])
        #expect(connections == 1)
    }

    /// Seven of ten connections once failed when SETTINGS came in one segment with the end of the handshake.
    @Test func `that speaks TLS 1_2 and sends its SETTINGS at once is used like any other`() async throws {
        for _ in 0..<10 {
            let (tally, downtimes, connections) = try await Stage(settings: Self.settings, newestVersion: .tls12).run {
                _, scene in
                scene.sender.send(count: 3)
                await scene.sender.untilAnswered(3)
                return (scene.sender.tally, scene.sender.downtimes.count, scene.server.connections.count)
            }
            #expect(tally == ["accepted": 3])
            #expect(downtimes == 0)
            #expect(connections == 1)
        }
    }

    /// 64 KB of each body were once kept: hundreds of megabytes for two connections.
    @Test func `that sends refusals whose bodies never end has refused when as much is there as is kept`()
        async throws
    {
        var settings = Self.settings
        settings.responseTime = .seconds(20)
        let part = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
        let started = ContinuousClock.now
        let (results, bytes) = try await Stage(
            settings: settings,
            respond: { request in
                request.connection.answerHead(request.streamID, 400)
                request.connection.answerPart(request.streamID, part)
            }
        ).run { _, scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            return (scene.sender.results, scene.gateway.pool.open.map { $0.lastRefusal?.body.count ?? 0 })
        }
        #expect(results.values.count { $0.hasPrefix("400 ") } == 3)
        #expect(bytes == [4096])
        #expect(started.duration(to: .now) < settings.responseTime)
    }

    @Test func `that accepts a push and does not end its stream gets the next one all the same`() async throws {
        let tally = try await Stage(
            maximumStreams: 1, settings: Self.settings,
            respond: { request in
                if request.streamID == 1 {
                    request.connection.answerHead(1, 200)
                } else {
                    request.answer()
                }
            }
        ).run { _, scene in
            scene.sender.send(count: 2)
            await scene.sender.untilAnswered(2)
            return scene.sender.tally
        }
        #expect(tally == ["accepted": 2])
    }

    @Test func `that accepts pushes and ends no stream has its streams reset soon`() async throws {
        var settings = Self.settings
        settings.responseTime = .seconds(20)
        let started = ContinuousClock.now
        let (tally, connections, told) = try await Stage(
            maximumStreams: 10, settings: settings, respond: { $0.connection.answerHead($0.streamID, 200) }
        ).run { _, scene in
            scene.sender.send(count: 30)
            await scene.sender.untilAnswered(30)
            return (scene.sender.tally, scene.server.connections.count, scene.sender.openStreams)
        }
        #expect(tally == ["accepted": 30])
        #expect(connections == 1)
        #expect(told.count == 1 && told[0].contains("does not end their streams"), "it is said once")
        #expect(started.duration(to: .now) < settings.responseTime)
    }

    @Test func `that refuses pushes and ends no stream has refused them as soon as their whole reason is there`()
        async throws
    {
        var settings = Self.settings
        settings.responseTime = .seconds(20)
        let started = ContinuousClock.now
        let (results, connections, told) = try await Stage(
            maximumStreams: 10, settings: settings,
            respond: { request in
                request.connection.answerHead(request.streamID, 410)
                request.connection.answerPart(request.streamID, Array(#"{"reason":"Unregistered","#.utf8))
                request.connection.answerPart(request.streamID, Array(#""timestamp":1458114061260} "#.utf8))
                request.connection.answerPart(request.streamID, Array("{}".utf8))
            }
        ).run { _, scene in
            scene.sender.send(count: 30)
            await scene.sender.untilAnswered(30)
            return (scene.sender.results, scene.server.connections.count, scene.sender.openStreams)
        }
        #expect(Set(results.values) == ["410 Unregistered"])
        #expect(results.count == 30 && connections == 1)
        #expect(told.count == 1 && told[0].contains("does not end their streams"), "it is said once")
        #expect(started.duration(to: .now) < settings.responseTime)
    }

    @Test func `that reads late has got nothing of what counts as never sent`() async throws {
        let (results, acted) = try await Stage(
            maximumStreams: 4000, windowSize: 64 << 20, settings: Self.settings,
            respond: { if $0.streamID == 1 { $0.connection.stream.pauseReading() } }
        ).run { actor, scene in
            scene.sender.resendsUntouched = false
            // More than the kernel accepts. The rest waits within the process.
            scene.sender.send(Sender.push(bytes: 5120), count: 4000)
            await scene.sender.until { !scene.sender.results.isEmpty }
            let server = scene.server.connections[0]
            server.stream.resumeReading()
            await scene.sender.untilAnswered(4000)
            while server.openCount > 0, !server.isClosed { await actor.loop.pause(.milliseconds(1)) }
            return (scene.sender.results, Set(scene.server.requests.compactMap { $0.fields["apns-id"] }))
        }
        let untouched = results.filter { $0.value == "untouched" }.keys.map { APNsID(root: 7, key: Int64($0)) }
        #expect(acted.count > 0)
        #expect(untouched.filter { acted.contains($0.description) }.isEmpty)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `The count of failed attempts` {
    @Test func `begins anew after a connection that has lasted, however it ended`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .milliseconds(50)
        settings.closeAfterIdle = .milliseconds(200)
        // After the sixth failure the delay is at least a sixth of the cap; after the first it is at most 10 ms.
        settings.backoff = Backoff(base: .milliseconds(10), cap: .milliseconds(240))
        let delays = try await Stage(
            settings: settings,
            respond: { request in
                // Only the seventh connection serves.
                if request.connection.number == 6 { request.answer() } else { request.connection.cut() }
            }
        ).run { actor, scene in
            for count in 1...6 {
                scene.sender.send(count: 1, from: UInt64(count))
                await scene.sender.until { scene.sender.downtimes.count == count }
            }
            scene.sender.send(count: 1, from: 7)
            await scene.sender.untilAnswered(7)
            while scene.gateway.connectionCount > 0 { await actor.loop.pause(.milliseconds(1)) }
            scene.sender.send(count: 1, from: 8)
            await scene.sender.until { scene.sender.downtimes.count == 7 }
            return scene.sender.downtimes[5...].map { $0.since.duration(to: $0.nextAttempt) }
        }
        #expect(delays[0] >= .milliseconds(40))
        #expect(delays[1] <= .milliseconds(10))
    }
}
