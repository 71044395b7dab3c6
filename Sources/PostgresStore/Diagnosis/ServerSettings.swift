extension HealthCheck {
    static let settings = HealthCheck(
        "settings", "settings of the server that lose data, slow workers down or show secrets", needsSchema: false
    ) { connection in
        try await connection.execute(.harmfulSettings).map { row in
            let (name, value) = (row.text("name"), row.text("setting"))
            let rule = SettingRule.all[name] ?? SettingRule(.warning, "harms pushq", "reset")
            let remedy =
                row.bool("is_of_session")
                ? "alter database \(row.text("database")) set \(name) = \(rule.value);"
                : "alter system set \(name) = \(rule.value); select pg_reload_conf();"
            return HealthFinding(rule.severity, name, "is \(value): \(rule.consequence)", .sql(remedy))
        }
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
}
