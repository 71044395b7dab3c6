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
    /// For how many days after today each table of history has partitions; -1 if today's is missing. Days after a gap
    /// do not count: their partitions were created when the database's clock was ahead.
    fileprivate static let partitionsAhead = Statement(
        "partitions_ahead",
        #"""
        select p.relname::text as parent, min(n.day) - 1 as ahead
        from pg_class p
        cross join generate_series(0, 32) as n(day)
        where p.relnamespace = 'pushq'::regnamespace and p.relkind = 'p'
          and not exists (
            select from pg_inherits i
            join pg_class c on c.oid = i.inhrelid
            where i.inhparent = p.oid and n.day < 32
              and c.relname = p.relname || to_char(pushq.today() + n.day, '_YYYYMMDD'))
        group by p.relname
        order by p.relname
        """#)
}
