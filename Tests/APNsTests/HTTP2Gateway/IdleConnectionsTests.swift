import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// Proxies, firewalls and servers end connections that nobody uses.
@Suite(.timeLimit(.minutes(10))) struct `The end of an idle connection` {
    enum End: CaseIterable {
        case cut, goAway

        fileprivate func end(_ connection: MockAPNs.Connection) {
            switch self {
            case .cut: connection.cut()
            case .goAway: connection.goAway(last: 2_147_483_647)
            }
        }
    }

    /// Whether the connection that was used ends before the one that was not.
    enum Order: CaseIterable { case usedFirst, unusedFirst }

    private static var settings: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.stableTime = .milliseconds(200)
        settings.quietTime = .milliseconds(20)
        settings.maximumConnections = 2
        return settings
    }

    /// The gateway once counted the end of the unused one as a downtime, and did not try to end it, because nobody
    /// wanted a connection. No push was sent before the worker was started again.
    @Test(arguments: End.allCases, Order.allCases)
    func `is no downtime, and the next push is sent, though the last connection was never used`(end: End, order: Order)
        async throws
    {
        let (tally, downtimes) = try await Stage(maximumStreams: 1, settings: Self.settings, respond: { _ in }).run {
            actor, scene in
            scene.sender.send(count: 1)
            while scene.server.requests.isEmpty { await actor.loop.pause(.milliseconds(1)) }
            // The second connection opens for this push, which goes over the first one in the end.
            scene.gateway.requestCapacity()
            while scene.gateway.pool.open.count < 2 { await actor.loop.pause(.milliseconds(1)) }
            scene.server.requests[0].answer()
            await scene.sender.untilAnswered(1)
            await actor.loop.pause(Self.settings.stableTime)
            let connections = scene.server.connections
            for connection in order == .usedFirst ? connections : connections.reversed() {
                let count = scene.gateway.pool.open.count
                end.end(connection)
                while scene.gateway.pool.open.count == count { await actor.loop.pause(.milliseconds(1)) }
            }
            scene.sender.send(count: 1, from: 1)
            while scene.server.requests.count < 2 { await actor.loop.pause(.milliseconds(1)) }
            scene.server.requests[1].answer()
            await scene.sender.untilAnswered(2)
            return (scene.sender.tally, scene.sender.downtimes.count)
        }
        #expect(tally == ["accepted": 2])
        #expect(downtimes == 0)
    }

    /// As with a proxy that ends idle connections after some seconds: a connection that replaced one was replaced again
    /// and again, with ever longer pauses, and the next push waited for one of them.
    @Test func `soon after its last push, or that of the one that replaces it, is the last`() async throws {
        var settings = Self.settings
        settings.stableTime = .seconds(60)
        settings.maximumConnections = 1
        let quiet = settings.quietTime
        let (state, count, downtimes) = try await Stage(settings: settings).run { actor, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            for number in 0..<2 {
                while scene.server.connections.count <= number || scene.gateway.pool.open.isEmpty {
                    await actor.loop.pause(.milliseconds(1))
                }
                let connection = scene.gateway.pool.open[0]
                await actor.loop.pause(quiet * 2)
                scene.server.connections[number].cut()
                while scene.gateway.pool.open.contains(where: { $0 === connection }) {
                    await actor.loop.pause(.milliseconds(1))
                }
            }
            await actor.loop.pause(quiet * 5)
            let state = scene.gateway.state
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(2)
            return (state, scene.server.connections.count, scene.sender.downtimes.count)
        }
        #expect(state == .idle)
        #expect(count == 3, "one for each push, and one that replaced the first")
        #expect(downtimes == 0)
    }

    /// Each end once made the next connection wait longer, and the push with it.
    @Test(arguments: End.allCases)
    func `after each push delays none of the next ones`(end: End) async throws {
        var settings = Self.settings
        settings.stableTime = .seconds(60)
        settings.growthInterval = .seconds(60)
        settings.maximumConnections = 1
        let quiet = settings.quietTime
        let started = ContinuousClock.now
        let (tally, downtimes) = try await Stage(settings: settings).run { actor, scene in
            for number in 0..<5 {
                scene.sender.send(count: 1, from: UInt64(number))
                await scene.sender.untilAnswered(number + 1)
                await actor.loop.pause(quiet * 2)
                let connection = scene.gateway.pool.open[0]
                end.end(try #require(scene.server.connections.last))
                while scene.gateway.pool.open.contains(where: { $0 === connection }) {
                    await actor.loop.pause(.milliseconds(1))
                }
            }
            return (scene.sender.tally, scene.sender.downtimes.count)
        }
        #expect(tally == ["accepted": 5])
        #expect(downtimes == 0)
        #expect(started.duration(to: .now) < settings.growthInterval)
    }

    /// The push and the end of the connection meet on their way.
    @Test func `at the moment of the next push is no downtime, however often it happens`() async throws {
        var settings = Self.settings
        settings.stableTime = .seconds(60)
        settings.backoff = Backoff(base: .seconds(5), cap: .seconds(60))
        settings.maximumConnections = 1
        let quiet = settings.quietTime
        let (tally, downtimes, connections) = try await Stage(
            settings: settings,
            respond: { request in
                // A connection that has served a push is closed when the next one comes.
                if request.streamID == 1 { request.answer() } else { request.connection.cut() }
            }
        ).run { actor, scene in
            for number in 0..<5 {
                scene.sender.send(count: 1, from: UInt64(number))
                await scene.sender.untilAnswered(number + 1)
                await actor.loop.pause(quiet * 2)
            }
            return (scene.sender.tally, scene.sender.downtimes.count, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 3, "unanswered": 2])
        #expect(downtimes == 0)
        #expect(connections == 3, "each takes the next push at once")
    }

    /// A balancer without servers behind it takes requests, and gives up later.
    @Test func `is not that of one whose requests are never answered, though nothing is sent meanwhile`() async throws {
        var settings = Self.settings
        settings.stableTime = .seconds(60)
        settings.maximumConnections = 1
        let quiet = settings.quietTime
        let downtimes = try await Stage(
            settings: settings, respond: { if $0.connection.number > 0 { $0.answer() } }
        ).run { actor, scene in
            scene.sender.send(count: 1)
            while scene.server.requests.isEmpty { await actor.loop.pause(.milliseconds(1)) }
            await actor.loop.pause(quiet * 2)
            scene.server.connections[0].goAway(last: 0)
            await scene.sender.untilAnswered(1)
            return scene.sender.downtimes.count
        }
        #expect(downtimes == 1)
    }
}
