extension HealthCheck {
    static let collation = HealthCheck(
        "collation", "a database whose texts were sorted by another version of the operating system's or ICU's rules",
        needsSchema: false
    ) { connection in
        try await connection.execute(.collationVersion).map { row in
            HealthFinding(
                .error, "database \(row.text("database"))",
                "its indexes were made with version \(row.text("recorded")) of its collation, and the server has "
                    + "\(row.text("actual")): keys may be accepted twice, and users not be found",
                .sql("reindex schema pushq;  -- while no worker runs and nobody sends", then: [row.text("refresh")]))
        }
    }
}

extension Statement {
    /// Nothing for the locale C, which has no versions (PostgreSQL, `pg_database_collation_actual_version`).
    fileprivate static let collationVersion = Statement(
        "collation_version",
        #"""
        select d.datname::text as database, d.datcollversion as recorded, a.version as actual,
               format('alter database %I refresh collation version;', d.datname) as refresh
        from pg_database d
        cross join lateral pg_database_collation_actual_version(d.oid) as a(version)
        where d.datname = current_database() and d.datcollversion <> a.version and to_regnamespace('pushq') is not null
        """#)
}
