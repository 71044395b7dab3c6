import TestSupport
import Testing

@testable import Workers

/// Checks the promises of ``Settlement`` in random sequences of events, without PostgreSQL.
@Suite struct `Settling, in any order of events` {
    @Test func `ends each job once, renews what is held, and forgets nothing that was answered`() {
        let events = [
            "rescue", "prevented", "refused ending", "set aside", "ending without an answer", "late flush",
            "refused flush",
            "failed renewal", "renewal without an answer", "round that went well", "stop", "lock", "renewal",
            "tokens too old", "hand-over", "repeated hand-over",
        ]
        explore(seeds: 120, reaching: events, moreThan: 10) { seed in
            let world = SettlementWorld(seed: seed)
            world.run(events: 600)
            world.drain()
            return (world.violation.map { "\($0), after \(world.events.suffix(30))" }, world.reached)
        }
    }
}
