extension PostgresConnection {
    /// Runs a text of one or several statements, without parameters and without looking at their rows. As long as it
    /// says nothing else, all of it is one transaction.
    package func runScript(_ sql: String, within limit: Duration = usualLimit) async throws(PostgresError) {
        _ = try await command(sql, task: "a script", within: limit)
    }

    /// Asks for notifications of a channel, which come to ``onNotification``. The connection is to be kept for this:
    /// behind a transaction pooler LISTEN succeeds and nothing ever comes.
    package func listen(to channel: String) async throws(PostgresError) {
        let name = channel.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
        _ = try await command("listen \"\(name)\"", task: "listen", within: Self.usualLimit)
    }

    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws. The connection must not be
    /// used by anybody else meanwhile, or their statements are part of it. Names without a schema are PostgreSQL's: a
    /// function in a schema of others cannot stand for one of these.
    /// - Throws: what `body` throws; or a ``PostgresError`` of the begin or the commit. Of a commit without an answer
    ///   nobody knows whether it was done, and the error says so.
    package func transaction<Success>(
        within limit: Duration = usualLimit, _ body: () async throws -> Success
    ) async throws -> Success {
        _ = try await command("begin; set local search_path = pg_catalog", task: "begin", within: limit)
        isInTransaction = true
        defer { isInTransaction = false }
        let success: Success
        do {
            success = try await body()
        } catch {
            await rollBack(within: limit)
            throw error
        }
        // From here on, nobody knows what became of it if there is no answer.
        isInTransaction = false
        let tag = try await command("commit", task: "commit", within: limit)
        guard tag == "COMMIT" else {
            throw PostgresError.server(
                ServerError(task: "commit", state: "25P02", message: "a statement of the transaction had failed"))
        }
        return success
    }

    /// A connection of which nobody knows whether it is still in the transaction is of no use.
    private func rollBack(within limit: Duration) async {
        do throws(PostgresError) {
            _ = try await command("rollback", task: "rollback", within: limit)
        } catch {
            close()
        }
    }

    private func command(_ sql: String, task: String, within limit: Duration) async throws(PostgresError) -> String {
        let solo = try await takeAlone(task, within: limit)
        defer { giveBack() }
        return try await run(sql, solo)
    }
}
