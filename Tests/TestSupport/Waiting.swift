/// The error if an awaited state was not reached.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Calls `look` again and again until `isReached` accepts its value, and returns that value. After the limit, throws
/// ``NeverHappened`` with the last value. Meant for a state that no event announces. The longer it takes, the rarer it
/// looks: a look often asks the server that the other tests need, too.
/// - Parameter limit: on a quiet machine. A busy one has longer: see ``Stopwatch``.
@discardableResult
package func wait<State>(
    for what: String, within limit: Duration = .seconds(30), _ look: () async throws -> State,
    until isReached: (State) -> Bool
) async throws -> State {
    let stopwatch = Stopwatch()
    while true {
        let state = try await look()
        if isReached(state) { return state }
        let waited = stopwatch.elapsed
        guard stopwatch.quietTime < limit else {
            let busy = waited > limit * 1.5 ? ", which lasted \(waited) on this busy machine" : ""
            throw NeverHappened(description: "\(what) did not happen within \(limit)\(busy); at last: \(state)")
        }
        try await Task.sleep(for: min(max(waited / 20, .milliseconds(5)), .milliseconds(30)))
    }
}

/// Waits until `condition` holds.
package func wait(
    for what: String, within limit: Duration = .seconds(30), _ condition: () async throws -> Bool
) async throws {
    try await wait(for: what, within: limit, condition, until: { $0 })
}
