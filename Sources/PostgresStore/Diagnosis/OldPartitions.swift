import QueueCore

extension HealthCheck {
    static let oldPartitions = HealthCheck(
        "old_partitions", "history that upkeep should have dropped days ago: it fills the disk"
    ) { connection in
        let usual = Retention()
        let parameters: Parameters = [
            "days": .int4(Int32(usual.days)), "feedback_days": .int4(Int32(usual.feedbackDays)),
        ]
        return try await connection.execute(.oldPartitions, parameters).map { row in
            HealthFinding(
                .warning, row.text("parent"),
                "has \(row.count("days").counted("partition")) past retention, the oldest of \(row.date("oldest"))",
                .advice("look for duty_failed of the duty upkeep in the workers' logs"))
        }
    }
}

extension Statement {
    /// Partitions that should have been dropped. Upkeep may be some hours late, and retries every hour if a job of that
    /// day blocks the drop. While a tenant arrives from another database, nothing is dropped.
    fileprivate static let oldPartitions = Statement(
        "old_partitions",
        #"""
        select d.parent, count(*) as days, min(d.day) as oldest
        from pg_class c
        cross join lateral (
          select split_part(c.relname, '_', 1) as parent,
                 to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') as day) d
        cross join pushq.longest_retention($days::int, $feedback_days::int) longest
        where c.relnamespace = 'pushq'::regnamespace and c.relkind = 'r'
          and c.relname ~ '^(body|feedback|message|result)_[0-9]{8}$'
          and d.day < pushq.today() - 2 - case d.parent when 'feedback' then longest.keep_feedback else longest.keep end
          and not exists (select from pushq.tenant_move m where not m.leaves and m.stage = 'copying')
        group by d.parent
        order by d.parent
        """#)
}
