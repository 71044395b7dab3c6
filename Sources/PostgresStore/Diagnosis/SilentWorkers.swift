import QueueCore

extension HealthCheck {
    static let silentWorkers = HealthCheck(
        "silent_workers", "workers that have shown no sign of life for 20 seconds"
    ) { connection in
        try await connection.execute(.silentWorkers).map { row in
            let jobs = Int(row.int8("jobs"))
            let fate =
                jobs == 0
                ? "it held nothing"
                : row.bool("has_others")
                    ? "others send the \(jobs.counted("job")) that it held"
                    : "the \(jobs.counted("job")) that it held \(jobs == 1 ? "waits" : "wait") until another worker runs"
            let seconds = row.float8("seconds")
            let silence =
                seconds > 0
                ? "has shown no sign of life for \(Words.time(seconds: seconds))"
                : "has shown no sign of life since the database's clock was set back"
            return HealthFinding(
                .warning, "worker \(row.text("name"))", "\(silence); \(fate)",
                .advice("see its log: it was killed, it hangs, or it cannot reach PostgreSQL"))
        }
    }
}

extension Statement {
    fileprivate static let silentWorkers = Statement(
        "silent_workers",
        #"""
        select w.name, extract(epoch from now() - w.seen_at)::float8 as seconds,
               (select count(*) from pushq.lease l where l.worker_id = w.id) as jobs,
               exists (select from pushq.worker o where pushq.is_alive(o.seen_at) and not o.draining)
                 as has_others
        from pushq.worker w
        where not pushq.is_alive(w.seen_at)
        order by w.seen_at
        limit \#(HealthCheck.queryLimit)
        """#)
}
