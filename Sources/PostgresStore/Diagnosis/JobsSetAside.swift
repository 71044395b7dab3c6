import QueueCore

extension HealthCheck {
    static let jobsSetAside = HealthCheck(
        "jobs_set_aside", "jobs that are set aside, because PostgreSQL refuses to store their end"
    ) { connection in
        try await connection.execute(.jobsSetAside).map { row in
            HealthFinding(
                .error, "queue \(row.text("queue"))",
                "\(row.count("jobs").counted("job")) \(row.count("jobs") == 1 ? "is" : "are") set aside: \(row.text("problem"))",
                .command("pushq-admin job list \(row.text("queue")) --set-aside"))
        }
    }
}

extension Statement {
    fileprivate static let jobsSetAside = Statement(
        "jobs_set_aside",
        #"""
        select n.name as queue, count(*) as jobs, min(s.problem) as problem
        from pushq.stuck_job s
        -- Upkeep deletes the rows of jobs that have ended, within an hour.
        join pushq.job j on j.queue_id = s.queue_id and j.id = s.job_id
        join pushq.queue_name n on n.queue_id = s.queue_id
        where s.set_aside_at is not null
        group by n.name
        order by jobs desc, queue
        limit \#(HealthCheck.queryLimit)
        """#)
}
