extension HealthCheck {
    static let webhooks = HealthCheck(
        "webhooks", "webhooks that do not accept reports about devices, or that no worker sends them to"
    ) { connection in
        let failing = try await connection.execute(.failingWebhooks).map { row in
            let (tenant, failures) = (row.text("tenant"), row.int4("failures"))
            let time = Words.time(seconds: row.float8("seconds"))
            return failures > 0
                ? HealthFinding(
                    .warning, "webhook of \(tenant)",
                    "has accepted nothing for \(time), after \(failures) tries: \(row.text("problem"))",
                    .command("pushq-admin webhook test \(tenant)"))
                : HealthFinding(
                    .warning, "webhook of \(tenant)", "has reports waiting, and no worker has sent them for \(time)",
                    .advice(
                        "run a worker that has the master key of its secret: docs/security.md, Another master key; "
                            + "if the key is lost: pushq-admin webhook set \(tenant) --new-secret "
                            + "(docs/security.md, If it is lost)"))
        }
        return failing
            + (try await connection.execute(.webhooksWithLostReports).map { row in
                HealthFinding(
                    .warning, "webhook of \(row.text("tenant"))",
                    "has never got some reports up to \(row.text("lost_to")), which are no longer kept",
                    .advice(
                        "have its receiver compare its devices with those of pushq-admin device export; then set the URL "
                            + "of the webhook again, which ends this finding"))
            })
    }
}

extension Statement {
    /// Webhooks whose turns have failed, or have not been taken, for five minutes. A turn that fails now and then is
    /// not reported. Those that began to fail last come first: a report of a new fault is not lost among many old ones.
    /// The last turn may be long ago, if there was nothing to send: then the first report waits since it was listed.
    fileprivate static let failingWebhooks = Statement(
        "failing_webhooks",
        #"""
        select t.name as tenant, p.failures, coalesce(p.problem, '') as problem,
               extract(epoch from now() - s.since)::float8 as seconds
        from pushq.webhook_progress p
        join pushq.tenant t on t.id = p.tenant_id
        cross join lateral (
          select case
                   when p.failures > 0 then p.failing_since
                   when p.newest > p.cursor and p.not_before < now() - interval '5 minutes' then (
                     select greatest(p.not_before, min(f.listed_at))
                     from pushq.queue k
                     cross join lateral (
                       select f.listed_at
                       from pushq.feedback f
                       where f.queue_id = k.id and f.cursor > p.cursor
                       order by f.cursor
                       limit 1) f
                     where k.tenant_id = p.tenant_id
                     having count(*) > 0)
                 end as since) s
        where s.since < now() - interval '5 minutes'
        order by s.since desc
        limit \#(HealthCheck.queryLimit)
        """#)

    fileprivate static let webhooksWithLostReports = Statement(
        "webhooks_with_lost_reports",
        #"""
        select t.name as tenant, pushq.shown_time(p.lost_to) as lost_to
        from pushq.webhook_progress p
        join pushq.tenant t on t.id = p.tenant_id
        where p.lost_to is not null
        order by p.lost_to desc
        limit \#(HealthCheck.queryLimit)
        """#)
}
