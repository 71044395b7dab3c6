package import Testing

/// ``wait(for:within:_:until:)`` in a test: what does not come is recorded as the test's issue.
@discardableResult
package func eventually<State>(
    _ what: String, within limit: Duration = .seconds(30), sourceLocation: SourceLocation = #_sourceLocation,
    _ look: () async throws -> State, until isReached: (State) -> Bool
) async throws -> State {
    do {
        return try await wait(for: what, within: limit, look, until: isReached)
    } catch let error as NeverHappened {
        Issue.record("\(error.description)", sourceLocation: sourceLocation)
        throw error
    }
}

/// Waits until `condition` holds.
package func eventually(
    _ what: String, within limit: Duration = .seconds(30), sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    try await eventually(what, within: limit, sourceLocation: sourceLocation, condition, until: { $0 })
}
