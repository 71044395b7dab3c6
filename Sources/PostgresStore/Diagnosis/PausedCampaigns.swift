import QueueCore

extension HealthCheck {
    static let pausedCampaigns = HealthCheck(
        "paused_campaigns", "campaigns that have paused themselves because of bad answers"
    ) { connection in
        try await connection.execute(.pausedCampaigns).map { row in
            HealthFinding(
                .warning, "campaign \(row.text("key"))",
                "of \(row.text("queue")) has paused itself: \(row.text("reason"))",
                .command(
                    "pushq-admin campaign show \(row.text("queue")) \(ShellWords.argument(row.text("key")))"))
        }
    }
}

extension Statement {
    /// The paused campaigns among the latest ten thousand of which something is left.
    fileprivate static let pausedCampaigns = Statement(
        "paused_campaigns",
        #"""
        select n.name as queue, c.key, c.paused_reason as reason
        from (select * from pushq.campaign order by id desc limit 10000) c
        join pushq.queue_name n on n.queue_id = c.queue_id
        where c.paused_reason is not null and c.cancelled_at is null and pushq.is_under_way(c.queue_id, c.id)
        order by c.paused_at
        limit \#(HealthCheck.queryLimit)
        """#)
}
