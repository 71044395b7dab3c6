/// The error if an awaited state was not reached.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Calls `look` again and again until `isReached` accepts its value, and returns that value. After the deadline, throws
/// ``NeverHappened`` with the last value. Meant for a state that no event announces.
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
