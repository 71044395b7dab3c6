extension HealthCheck {
    static let statistics = HealthCheck(
        "statistics", "a login that does not see what other sessions do, so that checks below see nothing",
        needsSchema: false
    ) { connection in
        let row = try await connection.execute(.visibleStatistics).one()
        guard !row.bool("sees_all") else { return [] }
        let login = row.text("login")
        return [
            HealthFinding(
                .note, login, "does not see transactions and replication of other logins",
                .grant("grant pg_read_all_stats to \(login);"))
        ]
    }
}

extension PostgresConnection {
    /// Whether the login sees the sessions and the replication of other logins.
    func seesAllStatistics() async throws(PostgresError) -> Bool {
        try await execute(.visibleStatistics).one().bool("sees_all")
    }
}

extension Statement {
    fileprivate static let visibleStatistics = Statement(
        "visible_statistics",
        #"""
        select pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all, quote_ident(current_user) as login
        """#)
}
