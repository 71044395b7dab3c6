import TestSupport
import Testing

@testable import Workers

/// Checks the promises of intake in random sequences of events, without PostgreSQL.
@Suite struct `Intake, in any order of events` {
    @Test func `keeps its promises`() {
        let steps = ["poll", "poll from floors", "poll of some queues", "presumption", "claim", "asleep", "woken"]
        explore(seeds: 150, reaching: steps, moreThan: 50) { seed in
            var world = IntakeWorld(seed: seed)
            world.run(steps: 300)
            return (world.violation.map { "broken: \($0.promise.rawValue): \($0.details)" }, world.reached)
        }
    }

    @Test(arguments: IntakeWorld.Sabotage.allCases)
    func `is found out when it breaks one`(sabotage: IntakeWorld.Sabotage) {
        let broken = firstBroken(seeds: 100) { seed in
            var world = IntakeWorld(seed: seed, sabotage: sabotage)
            world.run(steps: 300)
            return world.violation?.promise
        }
        #expect(broken == sabotage.breaks)
    }

    @Test func `has a break for each of its promises`() {
        #expect(Set(IntakeWorld.Sabotage.allCases.map(\.breaks)) == Set(IntakePromise.allCases))
    }
}
