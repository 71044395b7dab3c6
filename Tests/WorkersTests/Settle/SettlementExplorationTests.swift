import Testing

@testable import Workers

/// Random sequences of events against the promises of ``Settlement``, without PostgreSQL.
@Suite struct `Settling, in any order of events` {
    @Test func `ends each job once, renews what is held, and forgets nothing that was answered`() {
        var reached: [String: Int] = [:]
        for seed in 1...150 as ClosedRange<UInt64> {
            let world = SettlementWorld(seed: seed)
            world.run(events: 400)
            world.drain()
            if let violation = world.violation {
                Issue.record("seed \(seed): \(violation), after \(world.events.suffix(30))")
                return
            }
            reached.merge(world.reached, uniquingKeysWith: +)
        }
        for event in [
            "rescue", "abandoned", "refused ending", "ending without an answer", "late flush", "refused flush",
            "failed renewal", "renewal without an answer", "round that went well", "stop", "lock", "renewal",
        ] {
            #expect(reached[event, default: 0] > 20, "the exploration has become too small to reach: \(event)")
        }
    }
}
