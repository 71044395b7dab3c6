import QueueCore

extension HealthCheck {
    static let lockTable = HealthCheck(
        "lock_table", "days of history that may fill PostgreSQL's table of locks: calls of all tenants then fail"
    ) { connection in
        let usual = Retention()
        let parameters: Parameters = [
            "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
            "days_ahead": .int4(Int32(usual.daysAhead)),
        ]
        return try await connection.execute(.lockTable, parameters).map { row in
            HealthFinding(
                .warning, "server",
                "has \(row.count("days").counted("day")) of history, and room for the locks of \(row.count("room")) "
                    + "(max_locks_per_transaction = \(row.count("locks"))): a claim or pushq.status locks some tables "
                    + "and indexes of each day, and several at once may fail with “out of shared memory”, as may all "
                    + "other statements",
                .sql(
                    "alter system set max_locks_per_transaction = \(row.count("enough")); "
                        + "-- on standbys first, then here; each needs a restart"))
        }
    }
}

extension Statement {
    /// Finds whether seven statements that lock eight relations of each day fill the table of locks. A claim locks five
    /// of them on PostgreSQL 15, the end of a job two, and `pushq.status` up to nine. A worker and some producers run
    /// that many statements at a time.
    ///
    /// The table has room for twice `max_locks_per_transaction` for each process that may lock: one session's lock on
    /// one relation takes one place (`LockShmemSize` in PostgreSQL's `lock.c`). The 22 processes that are no
    /// connections are those of the default settings: autovacuum, background workers, and senders of WAL.
    ///
    /// The remedy has room for the days that the tenants' settings will have added, because each change of the setting
    /// needs a restart.
    fileprivate static let lockTable = Statement(
        "lock_table",
        #"""
        with history as (
          select max(p.days) as days
          from (
            select count(*) as days
            from pg_inherits i
            join pg_class c on c.oid = i.inhparent
            where c.relnamespace = 'pushq'::regnamespace and c.relname in ('body', 'message')
            group by c.oid) p),
        server as (
          select current_setting('max_locks_per_transaction')::bigint as locks,
                 current_setting('max_connections')::bigint + 22 as processes)
        select h.days, s.locks, 2 * s.locks * s.processes / (7 * 8) as room,
               (ceil(7 * 8 * greatest(h.days, longest.keep + $days_ahead::int + 2) / (2.0 * s.processes) / 64)
                  * 64)::bigint as enough
        from history h
        cross join server s
        cross join pushq.longest_retention($days::int, $feedback_days::int) longest
        where 7 * 8 * h.days > 2 * s.locks * s.processes
        """#)
}
