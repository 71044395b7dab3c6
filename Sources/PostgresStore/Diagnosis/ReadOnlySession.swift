extension HealthCheck {
    static let readOnly = HealthCheck(
        "read_only", "a session that may not write: a standby, or a server, database or login that is set so",
        needsSchema: false
    ) { connection in
        let row = try await connection.execute(.readOnlySession).one()
        if row.bool("is_standby") {
            return [
                HealthFinding(
                    .error, "server", "is a standby, which takes no writes",
                    .advice("name all servers in PUSHQ_DATABASE_URL, so that the primary is found: host1,host2"))
            ]
        }
        let own = HealthFinding(
            .error, "session", "is read-only (default_transaction_read_only)",
            .advice("remove default_transaction_read_only from PGOPTIONS or the options of PUSHQ_DATABASE_URL"))
        return (row.bool("is_of_client") ? [own] : []) + (try await connection.findings(of: SettingRule.readOnly))
    }
}

extension Statement {
    fileprivate static let readOnlySession = Statement(
        "read_only_session",
        #"""
        select pg_is_in_recovery() as is_standby, setting = 'on' and source = 'client' as is_of_client
        from pg_settings
        where name = 'default_transaction_read_only'
        """#)
}
