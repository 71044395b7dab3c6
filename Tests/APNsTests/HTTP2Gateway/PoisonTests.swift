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
            // The engine's limit (`EngineSettings.maximumLosses`).
            scene.sender.maximumLosses = 5
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
            scene.sender.maximumLosses = 5
            for ticket in 0..<21 { scene.sender.send(count: 1, from: UInt64(ticket)) }
            await scene.sender.untilAnswered(21)
            return (scene.sender.tally, begun.duration(to: actor.loop.now))
        }
        #expect(tally == ["accepted": 20, "unanswered": 1])
        #expect(time < .seconds(10))
    }
}
