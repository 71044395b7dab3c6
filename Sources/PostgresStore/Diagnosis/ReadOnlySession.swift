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
                .sql(
                    "set default_transaction_read_only = off; alter database \(row.text("database")) reset default_transaction_read_only;"
                ))
        ]
    }
}

extension Statement {
    fileprivate static let readOnlySession = Statement(
        "read_only_session",
        #"""
        select pg_is_in_recovery() as is_standby,
               current_setting('default_transaction_read_only') = 'on' as is_read_only,
               quote_ident(current_database()) as database
        """#)
}
