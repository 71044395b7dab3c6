import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// A server, or a proxy before it, that ends its connection when it reads a certain push.
@Suite(.timeLimit(.minutes(10))) struct `A push that ends its connection` {
    private static func id(_ ticket: Int) -> String { APNsID(root: 7, key: Int64(ticket)).description }

    /// Answers all pushes but one, which `end` deals with.
    private static func stage(
        poison: Int, maximumStreams: Int = 1000, end: @escaping @Sendable (MockAPNs.Request) -> Void
    ) -> Stage {
        let ended = Locked<Set<Int>>([])
        var settings = GatewaySettings.brisk
        settings.backoff = Backoff(base: .milliseconds(5), cap: .milliseconds(5))
        return Stage(maximumStreams: maximumStreams, settings: settings) { request in
            // What comes behind it is not read.
            let number = request.connection.number
            guard ended.withLock({ !$0.contains(number) }) else { return }
            guard request.fields["apns-id"] == id(poison) else { return request.answer() }
            ended.withLock { _ = $0.insert(number) }
            end(request)
        }
    }

    @Test(arguments: [0, 37, 399], [1000, 100])
    func `without a word costs no other push its answer`(poison: Int, maximumStreams: Int) async throws {
        let stage = Self.stage(poison: poison, maximumStreams: maximumStreams) { $0.connection.cut() }
        let (tally, result, losses) = try await stage.run { _, scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            scene.sender.send(count: 400)
            await scene.sender.untilAnswered(400)
            return (scene.sender.tally, scene.sender.results[UInt64(poison)], scene.sender.lostConnections)
        }
        #expect(tally == ["accepted": 399, "unanswered": 1])
        #expect(result == "unanswered")
        #expect(losses.last?.uncertain == 1, "it was alone in the end")
        #expect(losses.dropFirst().allSatisfy { $0.uncertain <= 100 })
    }

    /// It is behind 21 others, all of which were lost once before.
    @Test func `goes alone after its fourth loss, and the others do not wait for long`() async throws {
        let stage = Self.stage(poison: 3) { $0.connection.cut() }
        let (tally, time) = try await stage.run { actor, scene in
            let begun = actor.loop.now
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            for ticket in 0..<21 { scene.sender.send(count: 1, from: UInt64(ticket)) }
            await scene.sender.untilAnswered(21)
            return (scene.sender.tally, begun.duration(to: actor.loop.now))
        }
        #expect(tally == ["accepted": 20, "unanswered": 1])
        #expect(time < .seconds(10))
    }

    /// Otherwise it would be sent first over the next connection, and so on, and nothing behind it would arrive.
    @Test(arguments: [ErrorCode.noError, .protocolError], [true, false])
    func `by GOAWAY before anything was answered is told from the others`(code: ErrorCode, closes: Bool) async throws {
        let stage = Self.stage(poison: 0) { request in
            request.connection.goAway(last: 0, code)
            if closes { request.connection.cut() }
        }
        let (tally, result) = try await stage.run { _, scene in
            scene.sender.send(count: 21)
            try await eventually("all to be answered", within: .seconds(20)) { scene.sender.results.count == 21 }
            return (scene.sender.tally, scene.sender.results[0])
        }
        #expect(tally == ["accepted": 20, "503 Shutdown": 1])
        #expect(result == "503 Shutdown")
    }

    @Test func `by GOAWAY after others were answered costs nothing at first`() async throws {
        let stage = Self.stage(poison: 5) { request in
            request.connection.goAway(last: max(request.streamID, 2) - 2)
            request.connection.cut()
        }
        let (tally, repeated) = try await stage.run { _, scene in
            scene.sender.send(count: 21)
            try await eventually("all to be answered", within: .seconds(20)) { scene.sender.results.count == 21 }
            return (scene.sender.tally, scene.sender.repeatedCount)
        }
        #expect(tally == ["accepted": 20, "503 Shutdown": 1])
        #expect(repeated == 16 + 15, "once over each connection")
    }

    /// A connection that ends within ten seconds is a failed attempt as a rule.
    @Test func `without a word is no failed attempt where the connection has served many`() async throws {
        let served = Locked<[Int: Int]>([:])
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        settings.maximumConnections = 1
        let (tally, downtimes, connections) = try await Stage(
            maximumStreams: 10, settings: settings,
            respond: { request in
                let count = served.withLock {
                    $0[request.connection.number, default: 0] += 1
                    return $0[request.connection.number, default: 0]
                }
                // What comes behind the last one is not read.
                if count < 150 { request.answer() } else if count == 150 { request.connection.cut() }
            }
        ).run { _, scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            scene.sender.send(count: 1000)
            await scene.sender.untilAnswered(1000)
            return (scene.sender.tally, scene.sender.downtimes.count, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 1000])
        #expect(downtimes == 0)
        #expect(connections >= 7)
    }

    /// They were lost before with the one that is to blame, and say nothing new.
    @Test func `without a word is no failed attempt where all others in flight were lost before`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        settings.maximumConnections = 1
        let stage = Stage(maximumStreams: 10, settings: settings) { request in
            // The first connection serves none of ten, and the next two one each.
            switch (request.connection.number, request.streamID) {
            case (0, 19), (1...2, 3): request.connection.cut()
            case (0, _), (1...2, 4...): break
            default: request.answer()
            }
        }
        let (tally, downtimes) = try await stage.run { _, scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            return (scene.sender.tally, scene.sender.downtimes.count)
        }
        #expect(tally == ["accepted": 10])
        #expect(downtimes == 1, "that of the first connection, which has served none")
    }
}
