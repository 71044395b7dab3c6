import Testing

@testable import Workers

/// Random sequences of events against the promises of ``ServedQueues``, without PostgreSQL.
@Suite struct `Serving queues, in any order of events` {
    @Test
    func `never goes back to older settings, nor sends with what was refused, and comes to what the database says`() {
        var reached: [String: Int] = [:]
        for seed in 1...150 as ClosedRange<UInt64> {
            let world = ServedQueuesWorld(seed: seed)
            world.run(events: 400)
            world.settle()
            if let violation = world.violation {
                Issue.record("seed \(seed): \(violation), after \(world.events.suffix(30))")
                return
            }
            reached.merge(world.reached, uniquingKeysWith: +)
        }
        for event in ["out of date", "paused", "refused pause", "pause without an answer", "notify", "operate"] {
            #expect(reached[event, default: 0] > 20, "the exploration has become too small to reach: \(event)")
        }
    }
}
