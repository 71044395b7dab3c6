import Cryptography
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

@Suite(.timeLimit(.minutes(10))) struct `When the server says GOAWAY` {
    @Test func `what lies above is sent again, the rest is awaited`() async throws {
        let held = Held()
        let (results, repeated, connectionCount) = try await Stage(respond: { request in
            if request.connection === held.requests.first?.connection || held.requests.isEmpty {
                held.requests.append(request)
            } else {
                request.answer()
            }
        }).run { _, scene in
            scene.sender.send(count: 4)
            await held.until(count: 4)
            // Streams 1, 3, 5 and 7 are in flight; the server has not acted on 5 and 7.
            held.requests[0].connection.goAway(last: 3)
            await scene.sender.untilAnswered(2)
            let repeated = scene.sender.repeatedCount
            held.requests[0].answer()
            held.requests[1].answer()
            await scene.sender.untilAnswered(4)
            return (scene.sender.tally, repeated, scene.server.connections.count)
        }
        #expect(results == ["accepted": 4])
        #expect(repeated == 2)
        #expect(connectionCount == 2)
    }

    @Test func `gracefully, in two steps, nothing is lost or sent twice`() async throws {
        let (tally, counts) = try await Stage(respond: { request in
            let connection = request.connection
            guard connection.goAwayCode == nil else { return }
            switch request.streamID {
            case 201:
                connection.goAway(last: 0x7FFF_FFFF)
                request.answer()
            default: request.answer()
            }
        }).run { _, scene in
            scene.sender.send(count: 3000)
            await scene.sender.untilAnswered(3000)
            return (scene.sender.tally, Set(scene.server.requests.map { $0.fields["apns-id"] }).count)
        }
        #expect(tally == ["accepted": 3000])
        #expect(counts == 3000)
    }

    @Test func `and answers no more, what it had taken is awaited for a time`() async throws {
        var settings = GatewaySettings.brisk
        settings.drainTime = .milliseconds(100)
        let tally = try await Stage(settings: settings, respond: Self.leaveUnansweredOnTheFirst).run { _, scene in
            scene.sender.send(count: 2)
            await scene.sender.untilAnswered(2)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 2])
    }

    @Test func `and answers no more, another connection is opened while it is awaited`() async throws {
        var settings = GatewaySettings.brisk
        settings.drainTime = .seconds(600)
        settings.stableTime = .seconds(60)
        let stage = Stage(settings: settings, respond: Self.leaveUnansweredOnTheFirst)
        let isAwaited = try await stage.run { actor, scene in
            scene.sender.send(count: 2)
            while scene.server.connections.count < 2 { await actor.loop.pause(.milliseconds(1)) }
            return !scene.server.connections[0].isClosed && scene.sender.tally.isEmpty
        }
        #expect(isAwaited)
    }

    /// On its first connection, the server sends GOAWAY after two requests, and answers neither.
    @Sendable private static func leaveUnansweredOnTheFirst(_ request: MockAPNs.Request) {
        guard request.connection.number == 0 else { return request.answer() }
        if request.streamID == 3 { request.connection.goAway() }
    }

    @Test func `and closes at once, what it had taken is unanswered`() async throws {
        let (tally, isReplaced) = try await Stage(respond: { request in
            guard request.connection.http.openStreamCount == 10 else { return }
            request.connection.goAway(last: 9)
            request.connection.cut()
        }).run { _, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            return (scene.sender.tally, scene.gateway.connectionCount)
        }
        #expect(tally == ["unanswered": 5, "untouched": 5])
        #expect(isReplaced <= 1)
    }

    @Test(arguments: [
        #"{"reason":"BadCertificateEnvironment"}"#, #"{"reason":"BadCertificate","more":null}"#,
        #"{"reason":"ExpiredProviderToken"}"#, #"{"reason":"TooManyProviderTokenUpdates"}"#,
    ])
    func `because of the credential, the handler is told why`(debug: String) async throws {
        let refused = try await Stage(respond: { $0.connection.goAway(last: 0, debug: debug) }).run { _, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 1)
            await scene.sender.until { !scene.sender.refusedCredentials.isEmpty }
            return scene.sender.refusedCredentials[0]
        }
        #expect(debug.contains(refused.reason.text))
        #expect(refused.detail.contains("NO_ERROR, \(refused.reason.text)"))
    }

    /// As when the clock of the database was set back: the token is of the future until another one is minted.
    @Test(arguments: [true, false])
    func `because of the token, it is replaced at once when there is another token`(byGoAway: Bool) async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(60)
        // Never over by itself while the test runs.
        settings.backoff = Backoff(base: .seconds(3600), cap: .seconds(3600))
        let expired = #"{"reason":"ExpiredProviderToken"}"#
        let (tally, tokens) = try await Stage(
            settings: settings,
            respond: { request in
                if request.fields["authorization"] == "bearer d.e.f" {
                    request.answer()
                } else if byGoAway {
                    request.connection.goAway(last: 0, debug: expired)
                } else {
                    request.answer(403, body: expired)
                }
            }
        ).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.until { scene.gateway.pool.reachability.outage != nil }
            scene.sender.send(count: 1, from: 1)
            // The same token changes nothing.
            scene.gateway.use(ProviderToken(text: "a.b.c", issuedAt: 0))
            scene.gateway.use(ProviderToken(text: "d.e.f", issuedAt: 1))
            await scene.sender.untilAnswered(2)
            return (scene.sender.tally, scene.server.requests.compactMap { $0.fields["authorization"] })
        }
        #expect(tally == (byGoAway ? ["accepted": 2] : ["403 ExpiredProviderToken": 1, "accepted": 1]))
        #expect(Set(tokens) == ["bearer a.b.c", "bearer d.e.f"])
    }

    @Test(arguments: ["", "null", "too many streams", "{\"reason\":", String(repeating: "x", count: 4000)])
    func `with debug data that it does not know, the credential is not blamed`(debug: String) async throws {
        let (tally, refusals) = try await Stage(respond: { request in
            if request.streamID == 1 {
                request.connection.goAway(last: 1, .refusedStream, debug: debug)
            }
            request.answer()
        }).run { _, scene in
            scene.sender.send(count: 50)
            await scene.sender.untilAnswered(50)
            return (scene.sender.tally, scene.sender.refusedCredentials.count)
        }
        #expect(tally == ["accepted": 50])
        #expect(refusals == 0)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `When a connection breaks` {
    @Test func `what was sent whole is unanswered, and another takes its place`() async throws {
        let tally = try await Stage(respond: { request in
            if request.connection.http.openStreamCount == 50 { request.connection.cut() }
        }).run { _, scene in
            scene.sender.send(count: 50)
            await scene.sender.untilAnswered(50)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 50])
    }

    @Test func `a body that had not left in full is untouched`() async throws {
        // The connection's window is 65,535 bytes: sixteen bodies of 4,096 do not fit, and the server never gives it
        // back.
        let (tally, arrived) = try await Stage(respond: { request in
            if request.connection.http.openStreamCount >= 15, request.streamID == 29 { request.connection.cut() }
        }).run { _, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(Sender.push(bytes: 4096), count: 40)
            await scene.sender.untilAnswered(40)
            return (scene.sender.tally, scene.server.requests.count)
        }
        #expect(tally["unanswered"].map { $0 >= arrived } == true)
        #expect(tally["untouched"].map { $0 > 0 } == true)
        #expect((tally["unanswered"] ?? 0) + (tally["untouched"] ?? 0) == 40)
    }

    @Test func `a stream that was refused is untouched`() async throws {
        let (tally, repeated, connections) = try await Stage(respond: { request in
            guard request.streamID == 3 else { return request.answer() }
            request.connection.reset(3, .refusedStream)
            request.connection.resetAgain(3, .streamClosed)
        }).run { _, scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            return (scene.sender.tally, scene.sender.repeatedCount, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 3])
        #expect(repeated == 1)
        #expect(connections == 1)
    }

    @Test func `a server that cannot be reached is tried again ever more seldom`() async throws {
        var settings = GatewaySettings.brisk
        settings.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(30))
        let outages = try await Stage(settings: settings).run { _, scene in
            scene.server.close()
            scene.gateway.requestCapacity()
            await scene.sender.until { scene.sender.outages.count == 12 }
            return scene.sender.outages
        }
        #expect(Set(outages.map(\.since)).count == 1)
        #expect(outages[0].error.contains("Connection refused"))
        // From the tenth failure on, attempts have failed for so long that the cap of 30 ms is the minimum delay.
        for (earlier, later) in zip(outages.dropFirst(8), outages.dropFirst(9)) {
            #expect(earlier.nextAttempt.duration(to: later.nextAttempt) >= .milliseconds(30))
        }
    }

    @Test func `connections that do not last are failures as well`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        let count = try await Stage(settings: settings, respond: { $0.connection.cut() }).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.until { !scene.sender.outages.isEmpty }
            return scene.sender.outages.count
        }
        #expect(count == 1)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `When answers do not come` {
    @Test func `one slow stream is given up and the connection kept`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .milliseconds(1500)
        settings.maximumUnanswered = 2
        let (results, connectionCount) = try await Stage(
            settings: settings, respond: { if $0.streamID != 5 { $0.answer() } }
        ).run { actor, scene in
            scene.sender.send(count: 5)
            var next: UInt64 = 5
            while scene.sender.results[2] == nil {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(2))
            }
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(results["unanswered"] == 1)
        #expect(connectionCount == 1)
    }

    @Test func `several in a row replace the connection`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .milliseconds(1500)
        let tally = try await Stage(
            settings: settings, respond: { if $0.connection !== $0.firstConnection { $0.answer() } }
        ).run { _, scene in
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            scene.sender.send(count: 10, from: 10)
            await scene.sender.untilAnswered(20)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 10, "accepted": 10])
    }

    @Test func `a server that has gone silent is found by PING`() async throws {
        var settings = GatewaySettings.brisk
        settings.pingAfterSilence = .milliseconds(20)
        settings.pingTime = .milliseconds(40)
        let tally = try await Stage(
            settings: settings, respond: { $0.connection.stream.pauseReading() }
        ).run { _, scene in
            scene.sender.send(count: 7)
            await scene.sender.untilAnswered(7)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 7])
    }

    @Test(arguments: [
        ([UInt8](), "sent no HTTP/2 SETTINGS"), ([0, 0, 0, 4, 0, 0, 0, 0, 0], "did not acknowledge SETTINGS"),
    ])
    func `a server that says nothing, or no more than its SETTINGS, is left`(words: [UInt8], expected: String)
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.settingsTime = .seconds(1)
        let (loop, brisk) = (EventLoop(name: "test"), settings)
        defer { loop.shutDown() }
        let error = try await loop.run { actor in
            let authority = try MockAPNs.authority.get()
            let context = try TLSContext.server(identity: authority.issueServer(names: ["localhost"]))
            let mute = try TLSListener(context: context, loop: loop) { _ = $0.write(words.span) }
            defer { mute.close() }
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(
                    host: "localhost", port: mute.port, authorities: try TrustStore(adding: [authority.certificate])),
                credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)), settings: brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            gateway.requestCapacity()
            await sender.until { !sender.outages.isEmpty }
            return sender.outages[0].error.replacing(":\(mute.port)", with: "")
        }
        #expect(error == "localhost " + expected)
    }
}

/// RFC 9113 §6.5.3 lets the client end such a connection. The pushes that it carries are not to blame.
@Suite(.timeLimit(.minutes(10))) struct `A server that answers but does not acknowledge SETTINGS` {
    @Test func `is left once its answers are there`() async throws {
        let held = Held()
        var settings = GatewaySettings.brisk
        settings.settingsTime = .milliseconds(500)
        settings.drainTime = .seconds(30)
        let stage = Stage(acknowledgesSettings: false, settings: settings) { request in
            if request.streamID > 1 { held.requests.append(request) } else { request.answer() }
        }
        let (tally, losses) = try await stage.run { actor, scene in
            scene.sender.send(count: 20)
            await held.until(count: 19)
            // The connection takes no more.
            while scene.gateway.freeSlots > 0 { await actor.loop.pause(.milliseconds(5)) }
            for request in held.requests { request.answer() }
            await scene.sender.untilAnswered(20)
            return (scene.sender.tally, scene.sender.lostConnections.count)
        }
        #expect(tally == ["accepted": 20])
        #expect(losses == 0)
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

/// Requests that a server leaves unanswered, with a way to wait for them. Used only on the loop of one test, on which
/// both server and test run.
final class Held: @unchecked Sendable {
    private var wakeUp: (count: Int, continuation: CheckedContinuation<Void, Never>)?
    var requests: [MockAPNs.Request] = [] {
        didSet { wake() }
    }

    func until(count: Int) async {
        await withCheckedContinuation { continuation in
            if requests.count >= count { continuation.resume() } else { wakeUp = (count, continuation) }
        }
    }

    private func wake() {
        guard let waiting = wakeUp, requests.count >= waiting.count else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}
