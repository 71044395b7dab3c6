/// The settings that the sessions of workers need.
///
/// A worker sets them itself if the session is its own. Behind a transaction pooler, a session is shared: a setting
/// would stay for the pooler's next client, which may be a producer, and would be missing for the worker's next
/// statement. There, the settings belong to the role that workers connect as. They are not set for the role that
/// migrates, because producers may share it. A role can lose its settings, because `pg_dump | psql` does not restore
/// them. So each session is checked.
enum WorkerSettings {
    /// The values are spelled as the server shows them.
    static let all: [(name: String, value: String)] = [
        // The planner estimates a claim by its worst case. With a million single pushes waiting, JIT compilation took
        // 100 of the 106 ms of each claim.
        ("jit", "off"),
        // The claim, flush and end statements are prepared once and run for days. With custom plans each claim is
        // planned anew (0.8 to 6 ms), and a plan made while a partition was fresh may hash-join all of history.
        ("plan_cache_mode", "force_generic_plan"),
        // Every name in pushq's statements and functions is qualified. So the path needs only pg_catalog, and no other
        // schema can hide what PostgreSQL provides.
        ("search_path", "pg_catalog"),
        // Statements wait for each other and continue with what was committed. At other levels they would fail instead.
        ("default_transaction_isolation", "read committed"),
        // Without warnings, a commit that the synchronous standby lacks would look like any other.
        ("client_min_messages", "warning"),
        // With `off`, a crash of the server forgets which pushes were sent. Other values stay: how far a commit waits
        // for standbys is the operator's choice.
        ("synchronous_commit", "on"),
        // A client drops a connection past its deadline. This setting ends what the server still does for that
        // connection.
        ("client_connection_check_interval", "5s"),
        // An open idle transaction holds back vacuum on the hot tables.
        ("idle_in_transaction_session_timeout", "1min"),
        // A worker may have nothing to do for long, and the session that hears notifications sends nothing at all.
        ("idle_session_timeout", "0"),
        // Each statement has a deadline here, and functions that must not wait for a lock say so themselves. Limits
        // that are meant for producers would end statements that are slow only for the moment, again and again.
        ("statement_timeout", "0"),
        ("lock_timeout", "0"),
        // From PostgreSQL 17 on.
        ("transaction_timeout", "0"),
    ]

    fileprivate static var parameters: Parameters {
        ["names": .textArray(all.map(\.name)), "values": .textArray(all.map(\.value))]
    }
}

/// The settings that the sessions of a worker lack, and that the worker may not set itself.
package struct SessionLack: Equatable, Sendable {
    /// The role that the worker is connected as.
    package let role: String
    /// The missing settings, each as `jit = off`.
    package let settings: [String]
}

extension PostgresConnection {
    /// Sets what a worker's session needs if the session belongs to this connection alone. Checks the settings in
    /// either case.
    /// - Returns: the missing settings; nil if there are none.
    package func prepareWorkerSession() async throws(PostgresError) -> SessionLack? {
        let rows = try await execute(
            .prepareWorkerSession, ["backend": .int4(backendProcessID)] + WorkerSettings.parameters)
        guard let role = rows.first?.text("role") else { return nil }
        return SessionLack(role: role, settings: rows.map { $0.text("setting") })
    }

    /// Lets no statement wait longer than a second for a lock, if the session belongs to this connection alone. Behind
    /// a pooler, only the functions that delete rows limit their waits.
    package func limitLockWaits() async throws(PostgresError) {
        _ = try await execute(.limitLockWaits, ["backend": .int4(backendProcessID)])
    }

    /// Whether the server has this role.
    package func hasRole(_ role: String) async throws(PostgresError) -> Bool {
        try await execute(.hasRole, ["role": .text(role)]).one().bool("has_role")
    }

    /// Sets what the sessions of workers need for a role in this database, for workers behind a transaction pooler.
    /// Sessions that the pooler has already opened do not change.
    /// - Throws: ``WorkerRoleRefusal`` if this login may not do so.
    package func setUpWorkerRole(_ role: String) async throws {
        let rows = try await execute(.workerRoleSettings, ["role": .text(role)] + WorkerSettings.parameters)
        let statements = rows.map { $0.text("statement") }.joined(separator: "; ")
        do throws(PostgresError) {
            try await runScript(statements)
        } catch {
            guard error.isNotAllowed else { throw error }
            throw WorkerRoleRefusal(role: role, statements: statements)
        }
    }
}

extension Statement {
    /// A pooler gives its clients process IDs of its own, so a session is direct if its process ID is the server's. Any
    /// value of an idle time limit except 0 is accepted, any that lets warnings through, and any `synchronous_commit`
    /// except `off`. A pooler's sessions may end when they are idle: it opens others. Older servers lack a setting.
    fileprivate static let prepareWorkerSession = Statement(
        "prepare_worker_session",
        #"""
        -- Names are qualified because this statement sets the search path.
        select current_user::text as role, pg_catalog.format('%s = %s', w.name, w.value) as setting
        from unnest($names::text[], $values::text[]) w(name, value)
        cross join lateral (
          select case when pg_catalog.current_setting(w.name, true) is null then null
                      when pg_catalog.pg_backend_pid() = $backend
                        and (w.name <> 'synchronous_commit' or pg_catalog.current_setting(w.name) = 'off')
                      then pg_catalog.set_config(w.name, w.value, false)
                      else pg_catalog.current_setting(w.name) end as value) s
        where s.value <> w.value
          and (w.name !~ '_(timeout|interval)$' or w.name ~ '^(statement|lock|transaction)_' or s.value = '0')
          and (w.name <> 'client_min_messages' or s.value = 'error')
          and (w.name <> 'synchronous_commit' or s.value = 'off')
        """#)

    fileprivate static let limitLockWaits = Statement(
        "limit_lock_waits",
        "select set_config('lock_timeout', '1s', false) where pg_backend_pid() = $backend")

    fileprivate static let hasRole = Statement(
        "has_role", "select exists (select from pg_catalog.pg_roles where rolname = $role) as has_role")

    fileprivate static let workerRoleSettings = Statement(
        "worker_role_settings",
        #"""
        select format('alter role %I in database %I set %I = %L', $role::text, current_database(), w.name, w.value)
          as statement
        from unnest($names::text[], $values::text[]) w(name, value)
        where current_setting(w.name, true) is not null
        """#)
}

/// The error of a login that may not change the settings of another role.
package struct WorkerRoleRefusal: Error, CustomStringConvertible {
    let role: String
    let statements: String

    package var description: String {
        "this login may not change the settings of role \(role), and nothing of them was changed; the schema is up to "
            + "date. Let an administrator of the server run in this database: \(statements)"
    }
}
