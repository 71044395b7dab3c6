package import Testing

/// Calls ``wait(for:within:_:until:)`` in a test. If the state is not reached, records an issue of the test.
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

/// Checks `condition` again and again, and records an issue of the test as soon as the condition does not hold. Meant
/// for what must not happen, because no event tells that it did not happen.
/// - Parameter time: the time within which it would happen if the code under test were wrong.
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
