extension HealthCheck {
    static let webhooks = HealthCheck("webhooks", "webhooks that do not accept reports about devices") { connection in
        try await connection.execute(.failingWebhooks).map { row in
            let (tenant, failures) = (row.text("tenant"), row.int4("failures"))
            return HealthFinding(
                .warning, "webhook of \(tenant)",
                "has accepted nothing for \(Words.time(seconds: row.float8("seconds"))), after \(failures) tries: "
                    + row.text("problem"),
                .command("pushq-admin webhook test \(tenant)"))
        }
    }
}

extension Statement {
    /// A try that fails now and then is not worth a word.
    fileprivate static let failingWebhooks = Statement(
        "failing_webhooks",
        #"""
        select t.name as tenant, p.failures, coalesce(p.problem, '') as problem,
               extract(epoch from now() - p.failing_since)::float8 as seconds
        from pushq.webhook_progress p
        join pushq.tenant t on t.id = p.tenant_id
        where p.failing_since < now() - interval '5 minutes'
        order by p.failing_since
        limit 20
        """#)
}
