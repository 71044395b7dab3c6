import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `The number of streams` {
    @Test func `never exceeds the server's limit`() async throws {
        let (highest, tally) = try await Stage(maximumStreams: 1).run { _, scene in
            scene.sender.send(count: 500)
            await scene.sender.untilAnswered(500)
            return (scene.server.connections.map(\.highestOpenCount).max(), scene.sender.tally)
        }
        #expect(highest == 1)
        #expect(tally == ["accepted": 500])
    }

    @Test func `rises with the limit after the first answer`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let held = Held()
        let highest = try await Stage(
            maximumStreams: 1, settings: settings,
            respond: { request in
                // Like APNs with tokens: one stream, until a request with a valid token has arrived.
                if request.streamID == 1 {
                    request.connection.allow(100)
                    request.answer()
                } else {
                    held.requests.append(request)
                }
            }
        ).run { _, scene in
            scene.sender.send(count: 101)
            await held.until(count: 100)
            for request in held.requests { request.answer() }
            await scene.sender.untilAnswered(101)
            return scene.server.connections[0].highestOpenCount
        }
        #expect(highest == 100)
    }

    @Test func `rises while others are in flight, and is used within 100 milliseconds`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        // The best of several tries, because a busy machine may delay some of them.
        var best = Duration.seconds(60)
        for _ in 0..<20 where best > .milliseconds(100) {
            let held = Held()
            let time = try await Stage(
                maximumStreams: 1, settings: settings, respond: { held.requests.append($0) }
            ).run { _, scene in
                scene.sender.send(count: 51)
                await held.until(count: 1)
                #expect(scene.server.connections[0].openCount == 1)
                let begun = ContinuousClock.now
                // Nothing is answered: only the new limit lets the other requests go.
                scene.server.connections[0].allow(1000)
                await held.until(count: 51)
                return begun.duration(to: .now)
            }
            best = min(best, time)
        }
        #expect(best <= .milliseconds(100))
    }

    @Test func `falls with the limit, without an error`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let held = Held()
        let (openWhenLowered, tally) = try await Stage(
            maximumStreams: 300, settings: settings, respond: { held.requests.append($0) }
        ).run { _, scene in
            scene.sender.send(count: 400)
            await held.until(count: 300)
            let connection = scene.server.connections[0]
            connection.allow(1)
            let first = held.requests
            held.requests = []
            for request in first.dropLast() { request.answer() }
            await scene.sender.untilAnswered(299)
            let openWhenLowered = connection.openCount
            first[299].answer()
            for ready in 0..<100 {
                await held.until(count: ready + 1)
                #expect(connection.openCount == 1)
                held.requests[ready].answer()
            }
            await scene.sender.untilAnswered(400)
            return (openWhenLowered, scene.sender.tally)
        }
        #expect(openWhenLowered == 1)
        #expect(tally == ["accepted": 400])
    }

    @Test func `moves to another connection when identifiers run out`() async throws {
        // 2^31 - 1 is the last identifier, so ten streams are left on each connection.
        let (tally, counts) = try await Stage(firstStreamID: 0x7FFF_FFFF - 18).run { _, scene in
            scene.sender.send(count: 35)
            await scene.sender.untilAnswered(35)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 35])
        #expect(counts == 4)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `The number of connections` {
    @Test func `grows only while all are saturated, up to the limit`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 3
        let held = Held()
        let (few, many) = try await Stage(
            maximumStreams: 10, settings: settings,
            respond: { request in
                if request.streamID == 1 { request.answer() } else { held.requests.append(request) }
            }
        ).run { actor, scene in
            scene.sender.send(count: 9)
            await held.until(count: 8)
            let few = scene.server.connections.count
            scene.sender.send(count: 100, from: 100)
            // Each of the three connections holds ten requests. No more connections are opened.
            while held.requests.count < 30 {
                scene.gateway.requestCapacity()
                await actor.loop.pause(.milliseconds(2))
            }
            return (few, scene.server.connections.count)
        }
        #expect(few == 1)
        #expect(many == 3)
    }

    @Test func `is none before there is something to send, and after a time without`() async throws {
        var settings = GatewaySettings.brisk
        settings.closeAfterIdle = .milliseconds(300)
        let states = try await Stage(settings: settings).run { actor, scene in
            var states = [scene.gateway.state]
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            states.append(scene.sender.stateWhenAnswered)
            while scene.gateway.connectionCount > 0 { await actor.loop.pause(.milliseconds(2)) }
            states.append(scene.gateway.state)
            // The next push opens a connection again.
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(2)
            states.append(scene.sender.stateWhenAnswered)
            return states
        }
        #expect(states == [.idle, .open, .idle, .open])
    }
}

@Suite(.timeLimit(.minutes(10))) struct `An answer about the connection` {
    @Test(arguments: [(500, "InternalServerError"), (503, "ServiceUnavailable"), (429, "TooManyRequests")])
    func `does not replace it when APNs is overloaded, however often it says so`(status: Int, reason: String)
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let (tally, connectionCount) = try await Stage(
            settings: settings, respond: { $0.answer(status, body: "{\"reason\":\"\(reason)\"}") }
        ).run { _, scene in
            scene.sender.send(count: 500)
            await scene.sender.untilAnswered(500)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["\(status) \(reason)": 500])
        #expect(connectionCount == 1)
    }

    @Test(arguments: [
        (503, "Shutdown"), (403, "ExpiredProviderToken"), (400, "IdleTimeout"), (429, "TooManyProviderTokenUpdates"),
    ])
    func `replaces it once, when it says so`(status: Int, reason: String) async throws {
        let held = Held()
        let (tally, connectionCount) = try await Stage(respond: { request in
            if request.connection === request.firstConnection {
                held.requests.append(request)
            } else {
                request.answer()
            }
        }).run { _, scene in
            scene.sender.send(count: 100)
            await held.until(count: 100)
            for request in held.requests { request.answer(status, body: "{\"reason\":\"\(reason)\"}") }
            await scene.sender.untilAnswered(100)
            scene.sender.send(count: 100, from: 100)
            await scene.sender.untilAnswered(200)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["\(status) \(reason)": 100, "accepted": 100])
        #expect(connectionCount == 2)
    }
}
