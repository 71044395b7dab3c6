import Transport

/// An import that gave up because other transactions held locks that it needed. Nothing was imported.
package struct ImportHeldUp: Error, CustomStringConvertible {
    /// The error that ended the last attempt.
    let cause: PostgresError

    package var description: String {
        "nothing was imported, because other transactions held devices of the file all the time: "
            + "\(cause.serverError?.message ?? "\(cause)"); find old transactions with: pushq-admin doctor; "
            + "then run the import again"
    }
}

/// A file was imported, but of some installations several tokens are active, because other transactions held them.
package struct InstallationsHeldUp: Error, CustomStringConvertible {
    let count: Int

    package var description: String {
        "the file was imported, but \(count) of its installations may have several active tokens, because other "
            + "transactions held them all the time; find old transactions with: pushq-admin doctor; then run the import "
            + "again"
    }
}

extension PostgresConnection {
    /// How long an import is retried.
    package static let heldUpLimit = Duration.seconds(600)
    private static let shortestWait = Duration.milliseconds(500)
    private static let longestWait = Duration.seconds(4)

    /// Runs `body` in a transaction that has begun, and repeats it while other transactions hold locks that it needs.
    /// Releases its own locks before each pause and before it waits longer for a lock. So a producer that leaves its
    /// transaction open holds up the import, but not the registrations of all other devices of the file.
    ///
    /// The first wait is shorter than PostgreSQL's `deadlock_timeout`, after which one of two transactions that wait
    /// for each other fails. So it is the import that fails, which can repeat its work, and not an app's registration.
    func repeatingIfHeldUp<Success>(
        for limit: Duration, _ body: () async throws -> Success
    ) async throws -> Success {
        try await runScript("savepoint staged")
        let deadline = loop.now + limit
        var wait = Self.shortestWait
        while true {
            do {
                return try await waitingForLocks(atMost: wait, body)
            } catch let error as PostgresError where error.isContended {
                guard loop.now < deadline else { throw ImportHeldUp(cause: error) }
                try await runScript("rollback to staged")
                try await Task.sleep(for: wait * 2)
                wait = min(wait * 2, Self.longestWait)
            }
        }
    }

    /// Runs `body` in a transaction of its own, and again until `deadline` while another transaction holds a lock that
    /// it needs. Returns nil if one did so all the time.
    func repeatingTransactionIfHeldUp<Success>(
        until deadline: ContinuousClock.Instant, _ body: () async throws -> Success
    ) async throws -> Success? {
        while true {
            do {
                return try await transaction(within: Self.fileLimit) {
                    try await waitingForLocks(atMost: Self.longestWait, body)
                }
            } catch let error as PostgresError where error.isContended {
                guard loop.now < deadline else { return nil }
            }
        }
    }
}
