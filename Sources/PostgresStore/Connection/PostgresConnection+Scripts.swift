extension PostgresConnection {
    /// Runs a text of one or several statements, without parameters; ignores their rows. Unless the text says
    /// otherwise, all of it is one transaction.
    /// - Parameter limit: how long it may take; nil: as long as any statement here.
    package func runScript(_ sql: String, within limit: Duration? = nil) async throws(PostgresError) {
        _ = try await command(sql, task: "a script", within: limit ?? statementLimit)
    }

    /// Asks for the notifications of a channel, which ``onNotification`` receives. Use a connection of its own that
    /// stays open: behind a transaction pooler, LISTEN succeeds, but no notification arrives.
    package func listen(to channel: String) async throws(PostgresError) {
        let name = channel.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        _ = try await command("listen \"\(name)\"", task: "listen", within: Self.usualLimit)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. No other task may use the
    /// connection meanwhile, or its statements become part of the transaction. Names without a schema are PostgreSQL's:
    /// a function in another schema cannot replace one of PostgreSQL's. Each statement sees what other transactions
    /// have committed, whatever the isolation level of the session. The server sends warnings, of which one says that
    /// a commit is missing on the synchronous standby.
    /// - Parameter limit: how long the begin, the commit, and each statement in between may take that has no limit of
    ///   its own; nil: ``patience``.
    /// - Throws: what `body` throws, or a ``PostgresError`` of the begin or the commit. If a commit gets no answer, it
    ///   is not known whether it was done, and the error says so.
    package func transaction<Success>(
        within limit: Duration? = nil, _ body: () async throws -> Success
    ) async throws -> Success {
        let limit = limit ?? patience
        _ = try await command(
            """
            begin isolation level read committed; set local search_path = pg_catalog;
            set local client_min_messages = warning; set local jit = off
            """, task: "begin", within: limit)
        transactionLimit = limit
        defer { transactionLimit = nil }
        let success: Success
        do {
            success = try await body()
        } catch {
            await rollBack(within: limit)
            throw error
        }
        // From here on, a missing answer leaves it unknown whether the transaction was committed.
        transactionLimit = nil
        let tag = try await command("commit", task: "commit", within: limit)
        guard tag == "COMMIT" else {
            throw PostgresError.server(
                ServerError(task: "commit", state: "25P02", message: "a statement of the transaction had failed"))
        }
        return success
    }

    /// Runs `body` in a transaction that has begun: none of its statements waits longer than this for a lock.
    func waitingForLocks<Success>(
        atMost limit: Duration, _ body: () async throws -> Success
    ) async throws -> Success {
        try await runScript("set local lock_timeout = \(Int64(limit / .milliseconds(1)))")
        // Otherwise the terms would set another limit before each statement.
        terms?.lockLimit = limit
        defer { terms?.lockLimit = nil }
        return try await body()
    }

    /// Rolls back, or closes the connection if that fails: it may still be in the transaction, so it is of no use.
    private func rollBack(within limit: Duration) async {
        do throws(PostgresError) {
            _ = try await command("rollback", task: "rollback", within: limit)
        } catch {
            close()
        }
    }

    /// How long a statement may take that has no limit of its own.
    var statementLimit: Duration { transactionLimit ?? patience }

    private func command(_ sql: String, task: String, within limit: Duration) async throws(PostgresError) -> String {
        let solo = try await takeAlone(task, within: limit)
        defer { giveBack() }
        return try await run(sql, solo)
    }
}
