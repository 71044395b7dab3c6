extension HealthCheck {
    /// - Parameter wait: how long a session must have waited to be counted. Workers' own statements wait for
    ///   milliseconds.
    static func locks(awaitedFor wait: Duration = .seconds(2)) -> HealthCheck {
        HealthCheck("locks", "sessions that wait for a lock on pushq's tables, and who holds it", needsSchema: false) {
            connection in
            try await connection.execute(.awaitedLocks, ["wait": .interval(wait)]).map { row in
                let count = row.int8("waiters")
                let sessions = count == 1 ? "1 session waits" : "\(count) sessions wait"
                let first = row.optionalText("first").map { ", first \($0)" } ?? ""
                return HealthFinding(
                    .error, row.text("subject"),
                    "\(sessions) for what it holds, for up to \(Words.time(seconds: row.float8("seconds"))), to use "
                        + "\(row.text("tables"))\(first) (\(row.text("circumstances")))",
                    row.optionalText("remedy").map { .sql($0) }
                        ?? .advice("roll back or commit it: select gid from pg_prepared_xacts;"))
            }
        }
    }
}

extension Statement {
    /// The sessions that wait for a lock on one of pushq's tables, by those who block them without waiting themselves.
    /// A session that waits for such a lock blocks those that ask later. A prepared transaction has the pid 0.
    ///
    /// It reads no table of pushq's, so no lock holds it up.
    fileprivate static let awaitedLocks = Statement(
        "awaited_locks",
        #"""
        with recursive waiting as materialized (
          select l.pid, c.relname, l.mode,
                 extract(epoch from clock_timestamp() - coalesce(l.waitstart, clock_timestamp()))::float8 as seconds
          from pg_locks l
          join pg_class c on c.oid = l.relation
          where not l.granted and l.database = (select oid from pg_database where datname = current_database())
            and c.relnamespace = to_regnamespace('pushq')
            and l.waitstart < clock_timestamp() - $wait::interval),
        chain as (
          select w.pid as waiter, b.pid as blocker
          from waiting w
          cross join lateral unnest(pg_blocking_pids(w.pid)) b(pid)
          union
          select c.waiter, b.pid
          from chain c
          cross join lateral unnest(pg_blocking_pids(c.blocker)) b(pid)
          where c.blocker <> 0),
        -- Who waits for an exclusive lock keeps later ones waiting, so it is named, too: it may be stopped instead.
        root as (
          select c.blocker as pid, count(distinct w.pid) as waiters, max(w.seconds) as seconds,
                 string_agg(distinct 'pushq.' || w.relname, ', ' order by 'pushq.' || w.relname) as tables,
                 min(w.pid) filter (where w.mode = 'AccessExclusiveLock') as exclusive
          from chain c
          join waiting w on w.pid = c.waiter
          where c.blocker = 0 or cardinality(pg_blocking_pids(c.blocker)) = 0
          group by c.blocker)
        select case when r.pid = 0 then 'prepared transaction' else 'session ' || r.pid end as subject, r.waiters,
               r.seconds, r.tables, 'session ' || r.exclusive || ' to change the table' as first,
               coalesce((select \#(circumstancesOfSession) from pg_stat_activity where pid = r.pid),
                        'prepared for commit') as circumstances,
               case when r.pid <> 0 then format('select pg_terminate_backend(%s);', r.pid) end as remedy
        from root r
        order by r.waiters desc, r.pid
        limit 5
        """#)
}
