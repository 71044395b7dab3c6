/// What the server is to keep to in each statement of a connection.
///
/// It goes ahead of the statement, in the same round trip and the same transaction, and ends with that. So it works
/// behind a transaction pooler, too, whose next client finds nothing of it.
///
/// In a transaction of several statements it holds until the next of them has its own, and so for a script or a COPY in
/// between, too. Therefore it does not say there how long a statement may take. That is not needed: if one is not
/// answered, the commit is never sent. A transaction that sets such limits itself is run without terms.
package struct StatementTerms: Sendable {
    /// How the audit is to call the program, in any script; nil: as the session is called, which may only have ASCII
    /// characters.
    package var program: String?
    /// How long a statement may wait for one lock, if that is shorter than what follows from its own limit.
    var lockLimit: Duration?

    package init(program: String? = nil) { self.program = program }

    /// Ahead of the terms, where the statement is a transaction of its own: it has to see what others have committed,
    /// whatever a DBA has set `default_transaction_isolation` to. Nothing but PostgreSQL's own command may say that,
    /// and only before the first query. It is over with the transaction, although it looks like a setting of the
    /// session.
    static let isolation = Statement("isolation", "set transaction_isolation = 'read committed'")

    /// The server gives up a statement before its caller does, so that the caller gets an answer: it was not carried
    /// out. Otherwise a statement that waited for a lock would be carried out behind the back of somebody who was told
    /// that it had failed. It waits for any one lock a bit less than it may take, because the error then says so.
    /// Shorter limits of the login stay as they are.
    static let statement = Statement(
        "terms",
        #"""
        select set_config(t.name, least(nullif(s.reset_val::int8, 0), t.milliseconds)::text, true) as setting
        from (values ('lock_timeout', $lock::int8), ('statement_timeout', $longest::int8),
                     -- The caller was interrupted: what it has asked for is not carried out minutes later.
                     ('client_connection_check_interval', 2000)) t(name, milliseconds)
        join pg_catalog.pg_settings s on s.name = t.name and t.milliseconds is not null
        union all
        select set_config('pushq.program', coalesce($program::text, ''), true)
        union all
        -- A function in a schema of others, with parameters that fit better, would stand for one of PostgreSQL's.
        select set_config('search_path', 'pg_catalog', true)
        """#)

    func parameters(within limit: Duration, inTransaction isInTransaction: Bool) -> Parameters {
        let limit = max(Int64(limit / .milliseconds(1)), 10)
        let lock = lockLimit.map { Int64($0 / .milliseconds(1)) } ?? .max
        return [
            "lock": .int8(min(limit * 8 / 10, lock)), "longest": .int8(isInTransaction ? nil : limit * 9 / 10),
            "program": .text(program),
        ]
    }
}
