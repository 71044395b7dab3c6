import Testing

@Suite struct `The lease protocol, in every order of events` {
    /// Visits all reachable states, and returns the first violation with the actions that lead to it.
    private func explore(_ rules: LeaseModel.Rules) -> (states: Int, violation: String?, everyoneCanEnd: Bool) {
        let model = LeaseModel(rules: rules)
        // States are numbered, because hashing them takes most of the time.
        var numbers = [LeaseModel.State(): 0]
        var origin: [(state: Int, action: String)?] = [nil]
        var predecessors: [[Int]] = [[]]
        var frontier = [(state: LeaseModel.State(), number: 0)]
        var ends: [Int] = []
        while let (state, number) = frontier.popLast() {
            if let violation = model.violation(in: state) {
                return (numbers.count, "\(violation): \(path(to: number, by: origin))", false)
            }
            if state.database.place == .result { ends.append(number) }
            for (action, next) in model.successors(of: state) {
                let known = numbers.count
                let place = numbers[next, default: known]
                if place == known {
                    numbers[next] = known
                    origin.append((number, action))
                    predecessors.append([])
                    frontier.append((next, known))
                }
                predecessors[place].append(number)
            }
        }
        return (numbers.count, nil, reach(backwards: ends, by: predecessors) == numbers.count)
    }

    private func path(to end: Int, by origin: [(state: Int, action: String)?]) -> String {
        var actions: [String] = []
        var number = end
        while let (previous, action) = origin[number] {
            actions.append(action)
            number = previous
        }
        return actions.reversed().joined(separator: ", ")
    }

    /// The number of states from which an end can be reached.
    private func reach(backwards ends: [Int], by predecessors: [[Int]]) -> Int {
        var isSeen = [Bool](repeating: false, count: predecessors.count)
        var frontier = ends
        for end in ends { isSeen[end] = true }
        while let number = frontier.popLast() {
            for previous in predecessors[number] where !isSeen[previous] {
                isSeen[previous] = true
                frontier.append(previous)
            }
        }
        return isSeen.count { $0 }
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

    /// Explores with one flush that may arrive at any time, or never. Other troubles are reduced, because all of them
    /// together give too many states.
    private func explore(isAtMostOnce: Bool, ordersFlushes: Bool) -> (
        states: Int, violation: String?, everyoneCanEnd: Bool
    ) {
        var rules = LeaseModel.Rules()
        rules.isAtMostOnce = isAtMostOnce
        rules.ordersFlushes = ordersFlushes
        rules.maximumLate = 1
        rules.maximumYields = 0
        rules.maximumRescues = 1
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
