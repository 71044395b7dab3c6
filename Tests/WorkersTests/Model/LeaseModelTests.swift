import Testing

@Suite struct `The lease protocol, in every order of events` {
    /// All states that can be reached, and the first violation with the way that leads to it.
    private func explore(_ rules: LeaseModel.Rules) -> (states: Int, violation: String?, everyoneCanEnd: Bool) {
        let model = LeaseModel(rules: rules)
        let start = LeaseModel.State()
        var origin: [LeaseModel.State: (LeaseModel.State, String)] = [:]
        var predecessors: [LeaseModel.State: [LeaseModel.State]] = [:]
        var seen: Set = [start]
        var frontier = [start]
        while let state = frontier.popLast() {
            if let violation = model.violation(in: state) {
                return (seen.count, "\(violation): \(path(to: state, by: origin))", false)
            }
            for (action, next) in model.successors(of: state) {
                predecessors[next, default: []].append(state)
                guard seen.insert(next).inserted else { continue }
                origin[next] = (state, action)
                frontier.append(next)
            }
        }
        let ends = seen.filter { $0.database.place == .result }
        return (seen.count, nil, reach(backwards: Array(ends), by: predecessors) == seen.count)
    }

    private func path(
        to end: LeaseModel.State, by origin: [LeaseModel.State: (LeaseModel.State, String)]
    ) -> String {
        var actions: [String] = []
        var state = end
        while let (previous, action) = origin[state] {
            actions.append(action)
            state = previous
        }
        return actions.reversed().joined(separator: ", ")
    }

    /// How many states some end can be reached from.
    private func reach(
        backwards ends: [LeaseModel.State], by predecessors: [LeaseModel.State: [LeaseModel.State]]
    ) -> Int {
        var seen = Set(ends)
        var frontier = ends
        while let state = frontier.popLast() {
            for previous in predecessors[state] ?? [] where seen.insert(previous).inserted { frontier.append(previous) }
        }
        return seen.count
    }

    @Test(arguments: [false, true])
    func `loses nobody, settles nobody twice, and can always come to an end`(isAtMostOnce: Bool) {
        var rules = LeaseModel.Rules()
        rules.isAtMostOnce = isAtMostOnce
        let (states, violation, everyoneCanEnd) = explore(rules)
        #expect(violation == nil)
        #expect(everyoneCanEnd, "some state leads to no end: a job would be stuck for ever")
        #expect(states > 1000, "the model has become too small to find anything")
    }

    /// With one flush that may come at any time, or never; fewer of the other troubles, since all together are too many states.
    private func explore(isAtMostOnce: Bool, ordersFlushes: Bool) -> (
        states: Int, violation: String?, everyoneCanEnd: Bool
    ) {
        var rules = LeaseModel.Rules()
        rules.isAtMostOnce = isAtMostOnce
        rules.ordersFlushes = ordersFlushes
        rules.mostLate = 1
        rules.mostYields = 0
        rules.mostRescues = 1
        return explore(rules)
    }

    @Test(arguments: [false, true])
    func `keeps its promise when a flush that was given up comes late`(isAtMostOnce: Bool) {
        let (states, violation, everyoneCanEnd) = explore(isAtMostOnce: isAtMostOnce, ordersFlushes: true)
        #expect(violation == nil)
        #expect(everyoneCanEnd)
        #expect(states > 1000, "the model has become too small to find anything")
    }

    @Test func `breaks its promise when a flush that comes late undoes a later one`() {
        let violation = explore(isAtMostOnce: true, ordersFlushes: false).violation
        #expect(violation?.contains("sent to twice") == true)
    }

    @Test func `breaks its promise when epochs are not checked`() {
        var rules = LeaseModel.Rules()
        rules.isAtMostOnce = true
        rules.checksEpoch = false
        #expect(explore(rules).violation != nil)
    }
}
