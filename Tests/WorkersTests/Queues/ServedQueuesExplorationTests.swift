import TestSupport
import Testing

@testable import Workers

/// Checks the promises of ``ServedQueues`` in random sequences of events, without PostgreSQL.
@Suite struct `Serving queues, in any order of events` {
    @Test
    func `never goes back to older settings, nor sends with what was refused, and comes to what the database says`() {
        let events = ["out of date", "paused", "refused pause", "pause without an answer", "notify", "operate"]
        explore(seeds: 40, reaching: events, moreThan: 20) { seed in
            let world = ServedQueuesWorld(seed: seed)
            world.run(events: 400)
            world.settle()
            return (world.violation.map { "\($0), after \(world.events.suffix(30))" }, world.reached)
        }
    }
}
