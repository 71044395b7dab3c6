import Testing

@testable import Workers

/// Random sequences of events against the promises of intake, without PostgreSQL.
@Suite struct `Intake, in any order of events` {
    @Test func `keeps its promises`() {
        var reached: [String: Int] = [:]
        for seed in 1...100 as ClosedRange<UInt64> {
            var world = IntakeWorld(seed: seed)
            world.run(steps: 300)
            if let violation = world.violation {
                Issue.record("seed \(seed): broken: \(violation.promise.rawValue): \(violation.details)")
                return
            }
            reached.merge(world.reached, uniquingKeysWith: +)
        }
        for step in ["look", "look at floors", "claim", "asleep", "woken"] {
            #expect(reached[step, default: 0] > 100, "the exploration has become too small to reach: \(step)")
        }
    }

    @Test(arguments: IntakeWorld.Sabotage.allCases)
    func `is found out when it breaks one`(sabotage: IntakeWorld.Sabotage) {
        let broken = (1...100 as ClosedRange<UInt64>).lazy.compactMap { seed in
            var world = IntakeWorld(seed: seed, sabotage: sabotage)
            world.run(steps: 300)
            return world.violation?.promise
        }
        #expect(broken.first == sabotage.breaks)
    }

    @Test func `has a break for each of its promises`() {
        #expect(Set(IntakeWorld.Sabotage.allCases.map(\.breaks)) == Set(IntakePromise.allCases))
    }
}
