import QueueCore

extension HealthCheck {
    static let partitions = HealthCheck(
        "partitions", "history without partitions for the days to come: without tomorrow's, sends fail at midnight UTC"
    ) { connection in
        let wanted = Retention().daysAhead
        return try await connection.execute(.partitionsAhead).compactMap { row in
            let ahead = Int(row.int4("ahead"))
            guard ahead < wanted - 1 else { return nil }
            return HealthFinding(
                ahead < 1 ? .error : .warning, row.text("parent"),
                ahead < 0
                    ? "has no partition for today: sends fail"
                    : "has partitions for \(ahead.counted("day")) ahead, \(wanted) are wanted; a worker's upkeep makes them",
                .sql("select pushq.make_partition(null, \(wanted)) from generate_series(1, \(wanted * 5));"))
        }
    }
}

extension Statement {
    /// For how many days each table of history has partitions, today not among them. Without any: -1.
    fileprivate static let partitionsAhead = Statement(
        "partitions_ahead",
        #"""
        select p.relname::text as parent,
               coalesce(
                 max(to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD')) - pushq.today(), -1)::int as ahead
        from pg_class p
        left join pg_inherits i on i.inhparent = p.oid
        left join pg_class c on c.oid = i.inhrelid
        where p.relnamespace = 'pushq'::regnamespace and p.relkind = 'p'
        group by p.relname
        order by p.relname
        """#)
}
