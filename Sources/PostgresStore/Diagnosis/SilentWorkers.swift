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
            return HealthFinding(
                .warning, "worker \(row.text("name"))",
                "has shown no sign of life for \(Words.time(seconds: row.float8("seconds"))); \(fate)",
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
               exists (select from pushq.worker o where o.seen_at > now() - interval '20 seconds' and not o.draining)
                 as has_others
        from pushq.worker w
        where w.seen_at <= now() - interval '20 seconds'
        order by w.seen_at
        limit 20
        """#)
}
