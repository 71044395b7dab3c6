extension HealthCheck {
    static let readOnly = HealthCheck(
        "read_only", "a session that may not write: a standby, or a database that is set so", needsSchema: false
    ) { connection in
        let row = try await connection.execute(.readOnlySession).one()
        if row.bool("is_standby") {
            return [
                HealthFinding(
                    .error, "server", "is a standby, which takes no writes",
                    .advice("name all servers in PUSHQ_DATABASE_URL, so that the primary is found: host1,host2"))
            ]
        }
        guard row.bool("is_read_only") else { return [] }
        return [
            HealthFinding(
                .error, "session", "is read-only (default_transaction_read_only)",
                row.bool("is_of_client")
                    ? .advice(
                        "remove default_transaction_read_only from PGOPTIONS or the options of PUSHQ_DATABASE_URL")
                    : SettingPlace(row).remedy(for: "default_transaction_read_only", value: "off", isReadOnly: true))
        ]
    }
}

extension Statement {
    /// The sources are those of PostgreSQL's manual, 54.24: `global` stands for all roles.
    fileprivate static let readOnlySession = Statement(
        "read_only_session",
        #"""
        select pg_is_in_recovery() as is_standby, setting = 'on' as is_read_only, source = 'client' as is_of_client,
               source in ('global', 'database', 'user', 'database user') as is_stored,
               case when source in ('user', 'database user') then quote_ident(session_user) end as role,
               case when source in ('database', 'database user') then quote_ident(current_database()) end as database
        from pg_settings
        where name = 'default_transaction_read_only'
        """#)
}
