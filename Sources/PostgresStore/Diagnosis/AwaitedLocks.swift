extension HealthCheck {
    /// Whether the check finds locks for which others may have to wait.
    package var findsLocks: Bool { name == "locks" }

    /// - Parameter wait: how long a session must have waited to be counted. Workers' own statements wait for
    ///   milliseconds.
    static func locks(awaitedFor wait: Duration = .seconds(2)) -> HealthCheck {
        HealthCheck("locks", "sessions that wait for a lock on pushq's tables, and who holds it", needsSchema: false) {
            connection in
            try await connection.execute(.awaitedLocks, ["wait": .interval(wait)]).map { row in
                let (count, time) = (row.int8("waiters"), Words.time(seconds: row.float8("seconds")))
                let sessions = count == 1 ? "1 session waits" : "\(count) sessions wait"
                let first = row.optionalText("first").map { ", first \($0)" } ?? ""
                let evidence =
                    count == 0
                    ? "nobody else can use \(row.text("tables")), in its transaction of \(time)"
                    : "\(sessions) for what it holds, for up to \(time), to use \(row.text("tables"))\(first)"
                return HealthFinding(
                    .error, row.text("subject"), "\(evidence) (\(row.text("circumstances")))",
                    row.optionalText("remedy").map { .sql($0) }
                        ?? .advice("roll back or commit it: select gid from pg_prepared_xacts;"))
            }
        }
    }
}

extension Statement {
    /// The sessions that wait for a lock on one of pushq's tables, by those who block them without waiting themselves.
    /// A session that waits for such a lock blocks those that ask later. A prepared transaction has the pid 0. Also the
    /// sessions that hold a table alone, although nobody waits at this moment.
    ///
    /// It reads no table of pushq's, so no lock holds it up.
    fileprivate static let awaitedLocks = Statement(
        "awaited_locks",
        #"""
        with recursive lock as materialized (
          select l.pid, l.mode, l.granted, l.waitstart, c.relkind, 'pushq.' || c.relname as name
          from pg_locks l
          join pg_class c on c.oid = l.relation
          where l.database = (select oid from pg_database where datname = current_database())
            and c.relnamespace = to_regnamespace('pushq')),
        waiting as materialized (
          select pid, name, mode, extract(epoch from clock_timestamp() - waitstart)::float8 as seconds
          from lock
          where not granted and waitstart < clock_timestamp() - $wait::interval),
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
                 string_agg(distinct w.name, ', ' order by w.name) as tables,
                 min(w.pid) filter (where w.mode = 'AccessExclusiveLock') as exclusive
          from chain c
          join waiting w on w.pid = c.waiter
          where c.blocker = 0 or cardinality(pg_blocking_pids(c.blocker)) = 0
          group by c.blocker),
        found as (
          select * from root
          union all
          select l.pid, 0, extract(epoch from clock_timestamp() - min(a.xact_start))::float8,
                 string_agg(distinct l.name, ', ' order by l.name), null
          from lock l
          join pg_stat_activity a on a.pid = l.pid
          where l.granted and l.mode = 'AccessExclusiveLock' and l.relkind in ('r', 'p')
            and a.xact_start < clock_timestamp() - $wait::interval and l.pid not in (select pid from root)
            -- It holds one for a moment when it gives space back, and lets others go first.
            and not exists (select from pg_stat_progress_vacuum v where v.pid = l.pid)
          group by l.pid)
        select case when r.pid = 0 then 'prepared transaction' else 'session ' || r.pid end as subject, r.waiters,
               r.seconds, r.tables, 'session ' || r.exclusive || ' to change the table' as first,
               coalesce((select \#(circumstancesOfSession) from pg_stat_activity where pid = r.pid),
                        'prepared for commit') as circumstances,
               case when r.pid <> 0 then format('select pg_terminate_backend(%s);', r.pid) end as remedy
        from found r
        order by r.waiters desc, r.pid
        limit 5
        """#)
}
