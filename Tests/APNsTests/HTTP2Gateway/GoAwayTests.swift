import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// How a gateway leaves a server that shuts down gracefully.
@Suite(.timeLimit(.minutes(10))) struct `A server that goes away in good order` {
    /// RFC 9113 §6.8: the first GOAWAY names 2^31-1, so that requests on their way are accepted. The second names the
    /// last accepted stream.
    @Test
    func
        `in two steps, takes no new streams after the first, and what lies above the second is sent again`()
        async throws
    {
        let held = Held()
        let (streams, tally, repeated) = try await Stage(respond: { request in
            if request.connection.number == 0 { held.requests.append(request) } else { request.answer() }
        }).run { actor, scene in
            scene.sender.send(count: 10)
            await held.until(count: 10)
            let leaving = scene.server.connections[0]
            leaving.goAway(last: 0x7FFF_FFFF)
            while scene.gateway.freeSlots > 0 { await actor.loop.pause(.milliseconds(1)) }
            // These go over another connection, because the gateway is leaving this one.
            scene.sender.send(count: 20, from: 10)
            await scene.sender.untilAnswered(20)
            let streams = held.requests.map(\.streamID)
            // The server accepted streams 1 to 13, and not 15 to 19.
            leaving.goAway(last: 13)
            await scene.sender.untilAnswered(23)
            for request in held.requests.prefix(7) { request.answer() }
            await scene.sender.untilAnswered(30)
            return (streams, scene.sender.tally, scene.sender.repeatedCount)
        }
        #expect(streams == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19])
        #expect(tally == ["accepted": 30])
        #expect(repeated == 3)
    }

    @Test func `while nothing is in flight, is replaced when there is something to send`() async throws {
        let (tally, downtimes, connections) = try await Stage().run { _, scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
            scene.server.connections[0].goAway()
            scene.server.connections[0].cut()
            scene.sender.send(count: 5, from: 5)
            await scene.sender.untilAnswered(10)
            return (scene.sender.tally, scene.sender.downtimes.count, scene.server.connections.count)
        }
        #expect(tally["accepted"].map { $0 >= 5 } == true)
        #expect((tally["accepted"] ?? 0) + (tally["unanswered"] ?? 0) == 10)
        #expect(downtimes == 0)
        #expect(connections == 2)
    }

    @Test func `because it shuts down, is replaced at once and blames nobody`() async throws {
        let (tally, downtimes, refusals) = try await Stage(respond: { request in
            guard request.connection.number == 0, request.streamID > 20 else { return request.answer() }
            request.connection.goAway(last: 19, debug: #"{"reason":"Shutdown"}"#)
        }).run { _, scene in
            scene.sender.send(count: 50)
            await scene.sender.untilAnswered(50)
            return (scene.sender.tally, scene.sender.downtimes.count, scene.sender.refusedCredentials.count)
        }
        #expect(tally == ["accepted": 50])
        #expect(downtimes == 0)
        #expect(refusals == 0)
    }

    /// Any server that is restarted does this, and nginx (`keepalive_requests`). Such a server answers the requests
    /// afterwards.
    @Test(arguments: ["", "null", "max_age", #"{"reason":"Shutdown"}"#], [true, false])
    func `after so many requests, again and again, is no failure, and is replaced soon`(
        _ debug: String, answersFirst: Bool
    ) async throws {
        let held = Held()
        var settings = GatewaySettings()
        // On a busy machine, a second connection would be opened beside one that is slow.
        settings.maximumConnections = 1
        let (tally, downtimes, connections, time) = try await Stage(
            settings: settings,
            respond: { request in
                guard request.streamID <= 999 else { return }
                if answersFirst { request.answer() } else { held.requests.append(request) }
                guard request.streamID == 999 else { return }
                request.connection.goAway(last: 999, debug: debug)
                for earlier in held.requests where earlier.connection === request.connection { earlier.answer() }
                held.requests.removeAll { $0.connection === request.connection }
            }
        ).run { _, scene in
            let begun = ContinuousClock.now
            scene.sender.send(count: 6000)
            await scene.sender.untilAnswered(6000)
            return (
                scene.sender.tally, scene.sender.downtimes.count, scene.server.connections.count,
                begun.duration(to: .now)
            )
        }
        #expect(tally == ["accepted": 6000])
        #expect(downtimes == 0)
        #expect(connections <= 13)
        #expect(time < .seconds(60))
    }

    @Test func `after one request, again and again, sees ever fewer connections, and is no failure either`()
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.growthInterval = .milliseconds(50)
        settings.stableTime = .seconds(60)
        let (tally, downtimes, time) = try await Stage(
            settings: settings,
            respond: { request in
                guard request.streamID == 1 else { return }
                request.answer()
                request.connection.goAway(last: 1)
            }
        ).run { actor, scene in
            // The gateway measures from the beginning of the loop's turn, and much may have happened in the turn by
            // now.
            let begun = actor.loop.now
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
            return (scene.sender.tally, scene.sender.downtimes.count, begun.duration(to: .now))
        }
        #expect(tally == ["accepted": 5])
        #expect(downtimes == 0)
        #expect(time >= .milliseconds(100 + 200 + 400 + 800))
    }

    /// As servers do that leave in two steps (RFC 9113 §6.8) and answer only then. The second step may be missing.
    @Test(arguments: [true, false])
    func `in two steps before its first answer, again and again, is no failure, and is replaced soon`(
        hasSecondStep: Bool
    ) async throws {
        let held = Held()
        var settings = GatewaySettings()
        settings.growthInterval = .milliseconds(20)
        let (tally, downtimes, time) = try await Stage(
            settings: settings,
            respond: { request in
                guard request.streamID <= 39 else { return }
                held.requests.append(request)
                guard request.streamID == 39 else { return }
                let (connection, loop) = (request.connection, request.connection.stream.loop)
                connection.goAway(last: 0x7FFF_FFFF)
                loop.schedule(after: .milliseconds(20)) {
                    if hasSecondStep { connection.goAway(last: 39) }
                    loop.schedule(after: .milliseconds(20)) {
                        for earlier in held.requests where earlier.connection === connection { earlier.answer() }
                        held.requests.removeAll { $0.connection === connection }
                        if !hasSecondStep { connection.goAway(last: 39) }
                    }
                }
            }
        ).run { actor, scene in
            let begun = actor.loop.now
            scene.sender.send(count: 120)
            try await eventually("all to be answered", within: .seconds(60)) { scene.sender.results.count == 120 }
            return (scene.sender.tally, scene.sender.downtimes, begun.duration(to: .now))
        }
        #expect(tally == ["accepted": 120])
        #expect(downtimes.isEmpty)
        // Six connections, each of which comes later than the one before, and never by the pauses of a downtime.
        #expect(time < .seconds(30))
    }

    /// Whether it closes the connection afterwards or leaves that to the gateway.
    @Test(arguments: [true, false])
    func `after one request, and never answers, is out of reach, and sees ever fewer connections`(closes: Bool)
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.growthInterval = .milliseconds(20)
        settings.stableTime = .seconds(60)
        settings.drainTime = .milliseconds(100)
        settings.backoff = Backoff(base: .milliseconds(50), cap: .seconds(60))
        let (downtimes, losses, connections) = try await Stage(
            settings: settings,
            respond: { request in
                request.connection.goAway(last: 1)
                if closes { request.connection.cut() }
            }
        ).run { actor, scene in
            scene.sender.send(count: 20)
            await scene.sender.until { scene.sender.downtimes.count >= 4 }
            return (scene.sender.downtimes, scene.sender.lostConnections.count, scene.server.connections.count)
        }
        #expect(downtimes.allSatisfy { $0.error.contains("answered none of its requests") })
        #expect(losses >= 4, "each says how many pushes were without an answer")
        #expect(connections < 16, "without a pause it would be one for each push")
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
        let (tally, ids) = try await Stage(respond: { request in
            guard request.streamID >= 201 else { return request.answer() }
            let (connection, loop) = (request.connection, request.connection.stream.loop)
            if request.streamID == 201 {
                connection.goAway(last: 0x7FFF_FFFF)
                // What comes later than this is not taken: it lies above the last stream that this names.
                loop.schedule(after: .milliseconds(10)) { connection.goAway() }
            }
            // After the second step. If nothing were in flight, the gateway would not wait for it.
            loop.schedule(after: .milliseconds(20)) { request.answer() }
        }).run { _, scene in
            scene.sender.send(count: 3000)
            await scene.sender.untilAnswered(3000)
            return (scene.sender.tally, scene.server.requests.map { $0.fields["apns-id"] })
        }
        #expect(tally == ["accepted": 3000])
        #expect(ids.count == 3000)
        #expect(Set(ids).count == 3000)
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
            await scene.sender.until { scene.gateway.pool.reachability.downtime != nil }
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
