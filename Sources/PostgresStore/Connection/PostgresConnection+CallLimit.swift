import Transport

extension PostgresConnection {
    /// A call counts for a second. The pause is shorter, because the calls of others end at other times.
    private static let callPause = Duration.milliseconds(250)

    /// Repeats a call while the tenant has reached its limit of calls a second: a refused call has done nothing. In a
    /// transaction, what came before the call is kept.
    func waitingForCalls<Success>(
        atMost patience: Duration, _ call: () async throws(PostgresError) -> Success
    ) async throws(PostgresError) -> Success {
        let deadline = loop.now + patience
        if isInTransaction { try await runScript("savepoint called") }
        while true {
            do throws(PostgresError) {
                let success = try await call()
                // Savepoints of many calls would be nested.
                if isInTransaction { try await runScript("release called") }
                return success
            } catch {
                guard error.isThrottled, loop.now < deadline, !Task.isCancelled else { throw error }
                if isInTransaction { try await runScript("rollback to called") }
                try? await Task.sleep(for: Self.callPause)
            }
        }
    }

    /// The same with the time that the terms of the connection give.
    package func waitingForCalls<Success>(
        _ call: () async throws(PostgresError) -> Success
    ) async throws(PostgresError) -> Success {
        try await waitingForCalls(atMost: terms?.callPatience ?? .zero, call)
    }
}
