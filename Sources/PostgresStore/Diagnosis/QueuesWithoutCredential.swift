import QueueCore

extension HealthCheck {
    static let queuesWithoutCredential = HealthCheck(
        "queues_without_credential", "queues that have no credential, so that nothing of them is sent"
    ) { connection in
        let row = try await connection.execute(.queuesWithoutCredential).one()
        let count = row.count("queues")
        guard count > 0 else { return [] }
        let names = row.textArray("examples")
        let isWaiting = row.bool("has_work")
        // The binary interface takes no signing key.
        let files = row.text("gateway") == "binary" ? "--pkcs12 FILE" : "--p8 FILE --team-id TEAM"
        // If the tenant has a credential for the first queue, it was left to the operator to choose it.
        let remedy =
            row.optionalText("fitting").map {
                "pushq-admin queue set \(names[0]) --credential \(ShellWords.quoted($0))"
            }
            ?? "pushq-admin credential add \(row.text("tenant")) NAME \(files)"
        return [
            HealthFinding(
                isWaiting ? .error : .warning, "queues",
                "\(count.counted("queue")) \(count == 1 ? "has" : "have") no credential"
                    + "\(isWaiting ? ", and pushes wait" : ""): \(Words.names(names, of: count))",
                .command(remedy))
        ]
    }
}

extension Statement {
    /// The queues without a credential. The statement looks for a waiting job in each of them, and for a campaign that
    /// is due: it gets no jobs before they can be sent. That takes one probe of an index for each queue.
    fileprivate static let queuesWithoutCredential = Statement(
        "queues_without_credential",
        #"""
        with bare as materialized (
          select n.queue_id, n.name, n.tenant, n.app, n.environment, q.tenant_id, q.gateway
          from pushq.queue q join pushq.queue_name n on n.queue_id = q.id
          where q.credential_id is null)
        select (select count(*) from bare) as queues,
               array(select name from bare order by name limit 3) as examples,
               coalesce((select tenant from bare order by name limit 1), '') as tenant,
               coalesce((select gateway from bare order by name limit 1), '') as gateway,
               (select min(c.name)
                from (select * from bare order by name limit 1) b
                join pushq.credential c using (tenant_id)
                where pushq.credential_fits(c, b.app, b.environment, b.gateway)) as fitting,
               exists (
                 select
                 from bare b
                 cross join lateral (select from pushq.job j where j.queue_id = b.queue_id limit 1) j)
               or exists (
                 select
                 from bare b
                 cross join lateral (
                   select
                   from pushq.fan_out f
                   where f.queue_id = b.queue_id and not f.done and not f.paused and f.start_at <= now()
                   limit 1) f) as has_work
        """#)
}
