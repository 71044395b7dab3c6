import QueueCore

extension HealthCheck {
    static let workers = HealthCheck(
        "workers", "pushes that wait although no worker runs, or queues that no worker serves"
    ) { connection in
        let row = try await connection.execute(.runningWorkers).one()
        guard row.count("alive") > 0 else {
            let isWaiting = row.bool("has_work")
            return [
                HealthFinding(
                    isWaiting ? .error : .warning, "workers",
                    isWaiting ? "none is running, and pushes wait" : "none is running", .command("pushq work"))
            ]
        }
        let count = row.count("unserved")
        guard count > 0 else { return [] }
        return [
            HealthFinding(
                .warning, "queues",
                "no running worker serves \(count.counted("queue")): "
                    + Words.names(row.textArray("examples"), of: count),
                .command("pushq work --queues '\(row.textArray("examples").first ?? "*")'"))
        ]
    }
}

extension Statement {
    /// SQL: the names of the queues that a worker serves, for LIKE.
    static let patternOfQueues = #"""
        replace(replace(replace(replace(queues, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')
        """#

    /// Work waits as a job; as a campaign that has no jobs until a worker fans it out; as a run of a schedule; or as a
    /// job whose worker is gone. There may be millions of jobs, and none of them due. So of jobs and of campaigns, the
    /// statement reads the first of each lane, which is due earliest, in up to 30,000 lanes; of the others at most ten
    /// thousand.
    fileprivate static let runningWorkers = Statement(
        "running_workers",
        #"""
        with alive as materialized (
          select \#(patternOfQueues) as pattern
          from pushq.worker
          where pushq.is_alive(seen_at) and not draining),
        unserved as materialized (
          select n.name
          from pushq.queue_name n
          where not exists (select from alive a where n.name like a.pattern))
        select (select count(*) from alive) as alive,
               exists (
                 with recursive first_job as (
                   select n.* from pushq.next_lane(-1, 0, 2147483647) n
                   union all
                   select n.* from first_job f cross join lateral pushq.next_lane(f.queue_id, f.lane, 2147483647) n)
                 select from (select * from first_job limit 30000) f where f.run_at <= now())
                 or exists (
                   with recursive first_campaign as (
                     select n.* from pushq.next_fan_out(-1, 0, 2147483647) n
                     union all
                     select n.*
                     from first_campaign f
                     cross join lateral pushq.next_fan_out(f.queue_id, f.lane, 2147483647) n)
                   select from (select * from first_campaign limit 30000) f where f.start_at <= now())
                 or exists (select from pushq.schedule s where s.paused_at is null and s.next_at <= now())
                 or exists (
                   select
                   from (select worker_id from pushq.lease limit 10000) l
                   where not exists (
                     select from pushq.worker w where w.id = l.worker_id and pushq.is_alive(w.seen_at))) as has_work,
               (select count(*) from unserved) as unserved,
               array(select name from unserved order by name limit 3) as examples
        """#)
}

extension Statement {
    fileprivate static let unservedQueues = Statement(
        "unserved_queues",
        #"""
        select n.name
        from pushq.queue_name n
        cross join lateral pushq.worker_trouble(n.queue_id) w
        where n.tenant = $tenant and not w.serving
        order by n.name
        """#)
}

extension PostgresConnection {
    /// Returns the names of a tenant's queues that no running worker serves.
    package func unservedQueues(of tenant: String) async throws(PostgresError) -> [String] {
        try await execute(.unservedQueues, ["tenant": .text(tenant)]).map { $0.text("name") }
    }
}
