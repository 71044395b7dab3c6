/// Settings that the server applies to each statement of a connection.
///
/// They are sent before the statement, in the same round trip and the same transaction, and end with it. So they also
/// work behind a transaction pooler, whose next client finds no trace of them.
///
/// In a transaction of several statements, they hold until the next statement sets its own, and so also for a script or
/// a COPY in between. Therefore they do not limit the time of a statement there. That is not needed: if a statement is
/// not answered, the commit is never sent. A transaction that sets such limits itself runs without terms.
package struct StatementTerms: Sendable {
    /// The name of the program in the audit, in any script; nil: the session's application name, which allows only
    /// ASCII characters.
    package var program: String?
    /// How long a statement may wait for one lock, if that is shorter than what its own limit gives.
    package var lockLimit: Duration?
    /// How long a statement is repeated while the tenant has reached its limit of calls a second.
    package var callPatience = Duration.seconds(20)

    package init(program: String? = nil) { self.program = program }

    /// Sent before the terms if the statement is a transaction of its own. The statement must see what other
    /// transactions have committed, whatever a DBA has set `default_transaction_isolation` to. Only this command can
    /// set that, and only before the first query. It ends with the transaction, although it looks like a setting of the
    /// session.
    static let isolation = Statement("isolation", "set transaction_isolation = 'read committed'")

    /// Makes the server give up a statement before its caller does, so that the caller learns that it was not carried
    /// out. Otherwise a statement that waits for a lock could be carried out after its caller was told that it had
    /// failed. The lock timeout is a bit shorter than the statement timeout, because its error then names the lock as
    /// the cause. Shorter limits of the login stay in force.
    static let statement = Statement(
        "terms",
        #"""
        select set_config(t.name, least(nullif(s.reset_val::int8, 0), t.milliseconds)::text, true) as setting
        from (values ('lock_timeout', $lock::int8), ('statement_timeout', $longest::int8),
                     -- If the caller was interrupted, its statement must not be carried out minutes later.
                     ('client_connection_check_interval', 2000)) t(name, milliseconds)
        join pg_catalog.pg_settings s on s.name = t.name and t.milliseconds is not null
        union all
        select set_config('pushq.program', coalesce($program::text, ''), true)
        union all
        -- Without warnings, a commit that the synchronous standby lacks would look like any other.
        select set_config('client_min_messages', 'warning', true)
        union all
        -- While the server compiles a plan, which may take seconds, it does not look at its time limits.
        select set_config('jit', 'off', true)
        union all
        -- A login that acts for all tenants has to say so: `pushq.acts_for_all`.
        select set_config('role', session_user, true) where current_setting('role') = 'none'
        union all
        -- A function in another schema, whose parameters match better, would replace one of PostgreSQL's.
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
