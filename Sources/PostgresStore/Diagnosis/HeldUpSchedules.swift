import QueueCore

extension HealthCheck {
    static let schedules = HealthCheck("schedules", "schedules whose runs are not started") { connection in
        try await connection.execute(.heldUpSchedules).map { row in
            HealthFinding(
                .warning, "schedule \(row.text("name"))",
                "of \(row.text("queue")) does not start its run of \(row.text("run")): \(row.text("reason"))",
                .command("pushq schedule show \(row.text("queue")) \(ShellWords.quoted(row.text("name")))"))
        }
    }
}

extension Statement {
    /// The schedules that have waited the longest. Nothing is started for suspended tenants.
    fileprivate static let heldUpSchedules = Statement(
        "held_up_schedules",
        #"""
        select n.name as queue, s.name, pushq.shown_time(s.next_at) as run,
               coalesce(s.problem, 'no worker has done so for minutes') as reason
        from pushq.schedule s
        join pushq.queue_name n on n.queue_id = s.queue_id
        where s.paused_at is null and n.suspended_at is null and s.next_at < now()
          and not exists (select from pushq.restored_queue r where r.queue_id = s.queue_id)
          and (s.problem is not null or s.next_at < now() - interval '5 minutes')
        order by s.next_at
        limit \#(HealthCheck.queryLimit)
        """#)
}
