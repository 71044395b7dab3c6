extension HealthCheck {
    /// - Parameter age: how long a transaction must have been open to be named as what keeps the rows.
    static func deadRows(heldFor age: Duration = .seconds(60)) -> HealthCheck {
        HealthCheck(
            "dead_rows", "tables with more dead rows than live ones, which make claims and flushes slow"
        ) { connection in
            let rows = try await connection.execute(.deadRows)
            guard !rows.isEmpty else { return [] }
            let holder = try await RowHolder.oldest(heldFor: age, in: connection)
            let seesAll = try await connection.seesAllStatistics()
            return rows.map { row in
                let vacuumed = row.optionalFloat8("seconds").map { "vacuumed \(Words.time(seconds: $0)) ago" }
                let vacuum = "vacuum (analyze) pushq.\(row.text("name"));"
                let why = holder?.evidence ?? (seesAll ? nil : "this login does not see what may keep them")
                return HealthFinding(
                    .warning, row.text("name"),
                    "has \(row.int8("dead")) dead rows and \(row.int8("live")) live ones; "
                        + [vacuumed ?? "never vacuumed", why].compactMap(\.self).joined(separator: "; "),
                    holder?.remedy(then: vacuum) ?? .sql(vacuum))
            }
        }
    }
}

extension Statement {
    /// Tables with many dead rows. A table with fewer dead rows can still be read in a millisecond.
    fileprivate static let deadRows = Statement(
        "dead_rows",
        #"""
        select relname::text as name, n_dead_tup as dead, n_live_tup as live,
               extract(epoch from clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8 as seconds
        from pg_stat_user_tables
        where schemaname = 'pushq' and n_dead_tup >= 50000 and n_dead_tup > n_live_tup
        order by n_dead_tup desc
        limit 10
        """#)
}
