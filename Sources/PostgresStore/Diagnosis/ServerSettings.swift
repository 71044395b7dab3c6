extension HealthCheck {
    static let settings = HealthCheck(
        "settings", "settings of the server that lose data, slow workers down or show secrets", needsSchema: false
    ) { connection in
        let own = try await connection.execute(.harmfulSettings).map { row in
            let (name, value) = (row.text("name"), row.text("setting"))
            let rule = SettingRule.all[name] ?? SettingRule(.warning, "harms pushq", "reset")
            let remedy =
                row.bool("is_of_session")
                ? "alter database \(row.text("database")) set \(name) = \(rule.value);"
                : "alter system set \(name) = \(rule.value); select pg_reload_conf();"
            return HealthFinding(rule.severity, name, "is \(value): \(rule.consequence)", .sql(remedy))
        }
        // Programs of pushq set this for themselves. It matters for the sessions of producers.
        let silenced = try await connection.execute(.silencedSessions).map { row in
            HealthFinding(
                .warning, "client_min_messages of \(row.text("whose"))",
                "is error: its sessions do not learn that a commit is missing on the synchronous standby",
                .sql(row.text("remedy")))
        }
        return own + silenced
    }
}

/// What a setting does to pushq, and which value it should have.
private struct SettingRule {
    let severity: HealthFinding.Severity
    let consequence: String
    let value: String

    init(_ severity: HealthFinding.Severity, _ consequence: String, _ value: String) {
        self.severity = severity
        self.consequence = consequence
        self.value = value
    }

    static let all = [
        "fsync": SettingRule(.error, "a crash of the machine destroys the database", "on"),
        "full_page_writes": SettingRule(.error, "a crash of the machine destroys the database", "on"),
        "autovacuum": SettingRule(.error, "dead rows stay, and every claim gets slower by the hour", "on"),
        "track_counts": SettingRule(.error, "autovacuum does not see what there is to do", "on"),
        "synchronous_commit": SettingRule(
            .warning,
            "a crash loses the last commits, so that pushes are sent again, even those that may be sent at most once",
            "on"),
        "default_transaction_isolation": SettingRule(
            .warning, "producers fail on conflicts instead of waiting, and some of their calls are refused",
            "'read committed'"),
        "log_statement": SettingRule(
            .warning, "the server's log holds device tokens and payloads", "none"),
        "log_min_duration_statement": SettingRule(
            .warning, "the server's log holds device tokens and payloads", "-1"),
    ]
}

extension Statement {
    /// The harmful settings. One that is set for the database, login or session cannot be fixed for the whole server.
    fileprivate static let harmfulSettings = Statement(
        "harmful_settings",
        #"""
        select name, setting, source in ('database', 'user', 'database user') as is_of_session,
               quote_ident(current_database()) as database
        from pg_settings
        where (name, setting) in (
                ('fsync', 'off'), ('full_page_writes', 'off'), ('autovacuum', 'off'), ('track_counts', 'off'),
                ('synchronous_commit', 'off'), ('log_statement', 'all'), ('log_statement', 'mod'),
                ('log_min_duration_statement', '0'))
          or name = 'default_transaction_isolation' and setting <> 'read committed'
        order by name
        """#)

    /// Where warnings are turned off: for the server, for this database, or for roles that may use pushq. The session's
    /// own value says nothing, because its terms set it.
    fileprivate static let silencedSessions = Statement(
        "silenced_sessions",
        #"""
        with silenced as materialized (
          select quote_ident(r.rolname) as role, quote_ident(d.datname) as database
          from pg_db_role_setting s
          left join pg_roles r on r.oid = s.setrole
          left join pg_database d on d.oid = s.setdatabase
          where exists (select from unnest(s.setconfig) c where lower(c) = 'client_min_messages=error')
            and (s.setdatabase = 0 or d.datname = current_database())
            and (s.setrole = 0 or has_schema_privilege(s.setrole, to_regnamespace('pushq'), 'usage')))
        select case when role is not null then 'role ' || role else coalesce('database ' || database, 'all roles') end
                 as whose,
               format('alter %s reset client_min_messages;', case
                 when role is not null then concat_ws(' in database ', 'role ' || role, database)
                 else coalesce('database ' || database, 'role all') end) as remedy
        from silenced
        union all
        select 'the server', 'alter system reset client_min_messages; select pg_reload_conf();'
        from pg_settings
        where name = 'client_min_messages' and reset_val = 'error' and not exists (select from silenced)
        order by 1
        limit 20
        """#)
}
