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

/// Looks again and again whether `condition` still holds, and records the test's issue as soon as it does not. For what
/// must not happen: no event says that it would have happened by now.
/// - Parameter time: in which it would happen if the test's subject were wrong.
package func stays(
    _ what: String, for time: Duration, sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + time
    while ContinuousClock.now < end {
        guard try await condition() else {
            Issue.record("it did not stay so: \(what)", sourceLocation: sourceLocation)
            return
        }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// Waits until `condition` holds.
package func eventually(
    _ what: String, within limit: Duration = .seconds(30), sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    try await eventually(what, within: limit, sourceLocation: sourceLocation, condition, until: { $0 })
}
