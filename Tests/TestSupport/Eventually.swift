package import Testing

/// The state that a test waited for did not come.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String
}

/// Looks again and again until `look` returns what `isReached` accepts, and returns that. For what gives no event to wait for;
/// with a deadline, after which the test fails and shows the last state.
@discardableResult
package func eventually<State>(
    _ what: String, within limit: Duration = .seconds(10), sourceLocation: SourceLocation = #_sourceLocation,
    _ look: () async throws -> State, until isReached: (State) -> Bool
) async throws -> State {
    let deadline = ContinuousClock.now + limit
    while true {
        let state = try await look()
        if isReached(state) { return state }
        guard ContinuousClock.now < deadline else {
            let error = NeverHappened(description: "\(what) did not happen within \(limit); at last: \(state)")
            Issue.record("\(error.description)", sourceLocation: sourceLocation)
            throw error
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}

/// Waits until `condition` holds.
package func eventually(
    _ what: String, within limit: Duration = .seconds(10), sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    try await eventually(what, within: limit, sourceLocation: sourceLocation, condition, until: { $0 })
}
