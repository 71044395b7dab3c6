import QueueCore

extension HealthCheck {
    /// - Parameter time: how long after a lease has expired a worker should have rescued its job.
    static func leases(endedBefore time: Duration = .seconds(30)) -> HealthCheck {
        HealthCheck("leases", "jobs that are leased to workers that are gone, and that nobody puts back") {
            connection in
            guard let row = try await connection.execute(.orphanedLeases, ["time": .interval(time)]).first else {
                return []
            }
            let (jobs, orphans) = (row.count("jobs"), row.count("orphans"))
            return [
                HealthFinding(
                    .error, "leases",
                    "of \(jobs.counted("job")) ended up to \(Words.time(seconds: row.float8("seconds"))) ago, "
                        + "\(orphans) of them of workers that are gone, and no worker puts these jobs back",
                    .command("pushq work"))
            ]
        }
    }
}

extension Statement {
    /// Reads at most ten thousand of these leases.
    fileprivate static let orphanedLeases = Statement(
        "orphaned_leases",
        #"""
        select count(*) as jobs, extract(epoch from clock_timestamp() - min(l.deadline))::float8 as seconds,
               count(*) filter (where not exists (
                 -- The last worker of a fleet leaves its row behind if it is killed.
                 select from pushq.worker w where w.id = l.worker_id and pushq.is_alive(w.seen_at))) as orphans
        from (
          select worker_id, deadline
          from pushq.lease
          where deadline < clock_timestamp() - $time::interval
          limit 10000) l
        having count(*) > 0
        """#)
}
