/// The state that somebody waited for did not come.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Looks again and again until `look` returns what `isReached` accepts, and returns that. For what gives no event to
/// wait for; with a deadline, after which it throws ``NeverHappened`` with the last state.
@discardableResult
package func wait<State>(
    for what: String, within limit: Duration = .seconds(30), _ look: () async throws -> State,
    until isReached: (State) -> Bool
) async throws -> State {
    let deadline = ContinuousClock.now + limit
    while true {
        let state = try await look()
        if isReached(state) { return state }
        guard ContinuousClock.now < deadline else {
            throw NeverHappened(description: "\(what) did not happen within \(limit); at last: \(state)")
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}

/// Waits until `condition` holds.
package func wait(
    for what: String, within limit: Duration = .seconds(30), _ condition: () async throws -> Bool
) async throws {
    try await wait(for: what, within: limit, condition, until: { $0 })
}
