import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// Servers that acknowledge PINGs but answer little else.
@Suite(.timeLimit(.minutes(10))) struct `A server that swallows requests` {
    private static var settings: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.responseTime = .seconds(3)
        return settings
    }

    /// A connection is set aside long before its requests are given up, even if a busy machine delays the checks.
    private static var soonSetAside: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.silenceTime = .milliseconds(300)
        settings.responseTime = .seconds(60)
        return settings
    }

    /// The end of a burst: a part is answered, and no request is sent after the last answer.
    @Test func `is left when the rest of a burst is not answered, gets none of it again, and that is said once`()
        async throws
    {
        let (tally, overFirst, lost) = try await Stage(
            settings: Self.settings,
            respond: { request in
                if request.connection.number > 0 || request.streamID < 20 { request.answer() }
            }
        ).run { _, scene in
            scene.sender.maximumLosses = 2
            scene.sender.send(count: 100)
            await scene.sender.untilAnswered(100)
            return (
                scene.sender.tally, scene.server.requests.count { $0.connection.number == 0 },
                scene.sender.lostConnections
            )
        }
        #expect(tally == ["accepted": 100])
        #expect(overFirst == 100)
        #expect(lost.map(\.uncertain) == [90])
        #expect(lost.first?.reason.contains("left requests without an answer for 3.0 seconds") == true)
    }

    @Test func `gets no more of them soon, long before the first is given up`() async throws {
        let results = try await Stage(
            settings: Self.soonSetAside,
            respond: { request in
                if request.connection.number > 0 || request.streamID < 20 { request.answer() }
            }
        ).run { actor, scene in
            var next: UInt64 = 0
            while scene.server.connections.count < 2 || scene.sender.results.count < 30 {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(20))
            }
            return scene.sender.tally
        }
        #expect(results["unanswered"] == nil)
    }

    @Test func `is given its requests again when it answers after all`() async throws {
        let held = Held()
        let (connections, overFirst) = try await Stage(
            settings: Self.soonSetAside,
            respond: { request in
                if request.connection.number == 0, (20...100).contains(request.streamID) {
                    held.requests.append(request)
                } else {
                    request.answer()
                }
            }
        ).run { actor, scene in
            scene.sender.send(count: 20)
            await scene.sender.untilAnswered(10)
            // The connection is set aside, and the sender has nothing more to send.
            while scene.gateway.freeSlots > 0 { await actor.loop.pause(.milliseconds(5)) }
            for request in held.requests { request.answer() }
            await scene.sender.untilAnswered(20)
            scene.sender.send(count: 10, from: 20)
            while scene.server.requests.count < 30 { await actor.loop.pause(.milliseconds(5)) }
            return (scene.server.connections.count, scene.server.requests.count { $0.connection.number == 0 })
        }
        #expect(connections == 1)
        #expect(overFirst == 30)
    }

    @Test func `from the first on has another connection beside it at once, while more waits`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .seconds(60)
        let (tally, time) = try await Stage(
            maximumStreams: 10, settings: settings,
            respond: { if $0.connection.number > 0 { $0.answer() } }
        ).run { _, scene in
            let begun = ContinuousClock.now
            scene.sender.send(count: 100)
            await scene.sender.untilAnswered(90)
            return (scene.sender.tally, begun.duration(to: .now))
        }
        #expect(tally == ["accepted": 90])
        // Far less than the 60 s that an answer may take.
        #expect(time < .seconds(20))
    }

    @Test func `is tried ever more slowly, as are others like it`() async throws {
        let opened = Held()
        var settings = GatewaySettings.brisk
        // None is given up meanwhile.
        settings.responseTime = .seconds(60)
        let times = try await Stage(
            maximumStreams: 10, settings: settings, respond: { opened.requests.append($0) }
        ).run { _, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 100)
            await opened.until(count: 30)
            return scene.gateway.pool.open.map(\.openedAt)
        }
        #expect(times.count == 3)
        for (index, (one, next)) in zip(times, times.dropFirst()).enumerated() {
            #expect(one.duration(to: next) >= .milliseconds(500 * (1 << index)))
        }
    }

    @Test func `does not keep a push waiting that would go over another connection, though many were set aside`()
        async throws
    {
        var settings = Self.soonSetAside
        settings.maximumConnections = 1
        let tally = try await Stage(
            maximumStreams: 10, settings: settings, respond: { if $0.connection.number > 1 { $0.answer() } }
        ).run { _, scene in
            // The third connection is for the last one.
            scene.sender.send(count: 21)
            await scene.sender.untilAnswered(1)
            return scene.sender.tally
        }
        #expect(tally == ["accepted": 1])
    }

    @Test func `by allowing no streams from its first SETTINGS on is not waited for`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .seconds(60)
        let (tally, time) = try await Stage(maximumStreams: 0, settings: settings).run { actor, scene in
            let begun = ContinuousClock.now
            scene.sender.send(count: 3)
            while scene.server.connections.count < 2 { await actor.loop.pause(.milliseconds(1)) }
            scene.server.connections[1].allow(10)
            await scene.sender.untilAnswered(3)
            return (scene.sender.tally, begun.duration(to: .now))
        }
        #expect(tally == ["accepted": 3])
        // Far less than the 60 s that an answer may take.
        #expect(time < .seconds(20))
    }

    /// A few pushes may be at fault themselves.
    @Test(arguments: [(3, false), (4, true)]) func `is said to answer nothing if it has more than a few pushes`(
        count: Int, isSaid: Bool
    ) async throws {
        var settings = Self.soonSetAside
        settings.responseTime = .seconds(10)
        let (silences, downtimes) = try await Stage(settings: settings, respond: { _ in }).run { _, scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
            return (scene.sender.silences, scene.sender.downtimes.count)
        }
        #expect((silences > 0) == isSaid)
        // Whoever is told waits by itself before it sends again.
        #expect((downtimes == 0) == isSaid)
    }

    @Test func `is said to do so again over the next connection, and no more once it has answered`() async throws {
        let (before, after) = try await Stage(
            settings: Self.soonSetAside, respond: { if $0.connection.number > 1 { $0.answer() } }
        ).run { actor, scene in
            scene.sender.send(count: 4)
            while scene.sender.silences == 0 { await actor.loop.pause(.milliseconds(5)) }
            // A single push, as one that tries.
            scene.sender.send(count: 1, from: 4)
            while scene.sender.silences == 1 { await actor.loop.pause(.milliseconds(5)) }
            scene.sender.send(count: 1, from: 5)
            await scene.sender.untilAnswered(1)
            let isSilent = scene.gateway.isSilent
            return (scene.sender.silences, isSilent)
        }
        #expect(before == 2)
        #expect(!after)
    }

    @Test func `is not said to answer nothing while another connection gets answers`() async throws {
        var settings = Self.soonSetAside
        // On a busy machine, the other connection takes a moment.
        settings.silenceTime = .seconds(5)
        let silences = try await Stage(
            maximumStreams: 10, settings: settings, respond: { if $0.connection.number > 0 { $0.answer() } }
        ).run { actor, scene in
            scene.sender.send(count: 10)
            var next: UInt64 = 10
            while !scene.gateway.pool.open.contains(where: \.isSetAside) {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(20))
            }
            return scene.sender.silences
        }
        #expect(silences == 0)
    }

    /// How a server ends a request that it has not answered.
    enum LateEnd: CaseIterable {
        case reset, refused, malformed

        func apply(to request: MockAPNs.Request) {
            let (connection, id) = (request.connection, request.streamID)
            guard !connection.isClosed else { return }
            switch self {
            case .reset: connection.reset(id, .cancel)
            case .refused: connection.reset(id, .refusedStream)
            // HEADERS without a status.
            case .malformed: connection.answerRaw(id, block: [0, 1, 0x78, 1, 0x79])
            }
        }
    }

    /// A connection that was set aside for good once took the place of another until it was closed as idle, an hour
    /// later.
    @Test(arguments: LateEnd.allCases)
    func `and ends them later without an answer is left, however often that happens`(end: LateEnd) async throws {
        var settings = Self.soonSetAside
        settings.maximumConnections = 1
        let held = Held()
        // More connections than are allowed at a time.
        let tally = try await Stage(
            settings: settings,
            respond: { request in
                if request.connection.number < 3 { held.requests.append(request) } else { request.answer() }
            }
        ).run { actor, scene in
            scene.sender.maximumLosses = 10
            scene.sender.send(count: 1)
            let begun = ContinuousClock.now
            while scene.sender.results.isEmpty, begun.duration(to: .now) < .seconds(60) {
                if scene.gateway.pool.open.contains(where: \.isSetAside) {
                    for request in held.requests { end.apply(to: request) }
                    held.requests = []
                }
                await actor.loop.pause(.milliseconds(5))
            }
            return scene.sender.tally
        }
        #expect(tally == ["accepted": 1])
    }

    @Test func `now and then keeps its connection, until that has happened three times`() async throws {
        var settings = Self.settings
        settings.responseTime = .seconds(1)
        settings.maximumConnections = 1
        let (connections, lost) = try await Stage(
            settings: settings,
            respond: { request in
                if request.connection.number > 0 || ![5, 105, 205].contains(request.streamID) { request.answer() }
            }
        ).run { actor, scene in
            var next: UInt64 = 0
            var connections: [Int] = []
            while scene.server.connections.count < 2 {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(5))
                let unanswered = scene.sender.results.values.count { $0 == "unanswered" }
                while connections.count < unanswered { connections.append(scene.server.connections.count) }
            }
            return (connections, scene.sender.lostConnections.count)
        }
        #expect(connections.prefix(2).allSatisfy { $0 == 1 })
        #expect(lost == 1)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `An answer that is malformed` {
    /// Fields in HPACK: an indexed status, and literals without indexing.
    private static func literal(_ name: String, _ value: String) -> [UInt8] {
        [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
    }

    @Test(
        arguments: [
            ([0x88] + literal("content-length", "5"), "accepted"),
            ([0x88] + literal("content-length", "x"), "accepted"),
            ([0x88] + literal("Apns-Id", "x"), "accepted"),
            ([0x88] + literal("apns-id", " x"), "accepted"),
            (literal("apns-id", "x") + [0x88], "accepted"),
            ([0x88] + literal("connection", "close"), "accepted"),
            // Without a reason, the answer may not come from APNs.
            ([0x8C] + literal("content-length", "5"), "400 OtherTransient"),
            (literal(":status", "410") + literal("connection", "close"), "410 OtherTransient"),
            (literal(":status", "403") + literal("connection", "close"), "403 OtherTransient"),
            (literal(":status", "413") + literal("connection", "close"), "413 PayloadTooLarge"),
            // Which of the statuses counts is unknown, if any does.
            ([0x88, 0x8C], "unanswered"),
            (literal("apns-id", "x"), "unanswered"),
            (literal(":status", "2000"), "unanswered"),
        ] as [([UInt8], String)])
    func `counts by its status where that can be read`(block: [UInt8], expected: String) async throws {
        let tally = try await Stage(respond: { $0.connection.answerRaw($0.streamID, block: block) }).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            return scene.sender.tally
        }
        #expect(tally == [expected: 1])
    }
}
