extension PostgresConnection {
    /// Runs a text of one or several statements, without parameters and without looking at their rows. As long as it
    /// says nothing else, all of it is one transaction.
    /// - Parameter limit: how long it may take; nil: as long as any statement here.
    package func runScript(_ sql: String, within limit: Duration? = nil) async throws(PostgresError) {
        _ = try await command(sql, task: "a script", within: limit ?? statementLimit)
    }

    /// Asks for notifications of a channel, which come to ``onNotification``. The connection is to be kept for this:
    /// behind a transaction pooler LISTEN succeeds and nothing ever comes.
    package func listen(to channel: String) async throws(PostgresError) {
        let name = channel.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        _ = try await command("listen \"\(name)\"", task: "listen", within: Self.usualLimit)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. The connection must not be
    /// used by anybody else meanwhile, or their statements are part of it. Names without a schema are PostgreSQL's: a
    /// function in a schema of others cannot stand for one of these. Each statement sees what others have committed,
    /// whatever the isolation level of the session.
    /// - Parameter limit: how long the begin, the commit, and each statement in between may take that does not have a
    ///   limit of its own.
    /// - Throws: what `body` throws; or a ``PostgresError`` of the begin or the commit. Of a commit without an answer
    ///   nobody knows whether it was done, and the error says so.
    package func transaction<Success>(
        within limit: Duration = usualLimit, _ body: () async throws -> Success
    ) async throws -> Success {
        _ = try await command(
            "begin isolation level read committed; set local search_path = pg_catalog", task: "begin", within: limit)
        transactionLimit = limit
        defer { transactionLimit = nil }
        let success: Success
        do {
            success = try await body()
        } catch {
            await rollBack(within: limit)
            throw error
        }
        // From here on, nobody knows what became of it if there is no answer.
        transactionLimit = nil
        let tag = try await command("commit", task: "commit", within: limit)
        guard tag == "COMMIT" else {
            throw PostgresError.server(
                ServerError(task: "commit", state: "25P02", message: "a statement of the transaction had failed"))
        }
        return success
    }

    /// Runs `body` in a transaction that has begun: none of its statements waits longer for a lock than this.
    func waitingForLocks<Success>(
        atMost limit: Duration, _ body: () async throws -> Success
    ) async throws -> Success {
        try await runScript("set local lock_timeout = \(Int64(limit / .milliseconds(1)))")
        // They would say otherwise ahead of each statement.
        terms?.lockLimit = limit
        defer { terms?.lockLimit = nil }
        return try await body()
    }

    /// A connection of which nobody knows whether it is still in the transaction is of no use.
    private func rollBack(within limit: Duration) async {
        do throws(PostgresError) {
            _ = try await command("rollback", task: "rollback", within: limit)
        } catch {
            close()
        }
    }

    /// How long a statement may take that does not say it itself.
    var statementLimit: Duration { transactionLimit ?? Self.usualLimit }

    private func command(_ sql: String, task: String, within limit: Duration) async throws(PostgresError) -> String {
        let solo = try await takeAlone(task, within: limit)
        defer { giveBack() }
        return try await run(sql, solo)
    }
}
