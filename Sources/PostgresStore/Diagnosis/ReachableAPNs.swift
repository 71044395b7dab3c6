import QueueCore

extension HealthCheck {
    static let apns = HealthCheck(
        "apns", "workers that cannot reach APNs, by credential"
    ) { connection in
        try await connection.execute(.unreachableAPNs).map { row in
            let (cut, alive, queues) = (row.count("cut_off"), row.count("alive"), row.count("queues"))
            return HealthFinding(
                cut == alive ? .error : .warning, "credential \(row.text("credential"))",
                "\(cut) of \(alive.counted("worker")) cannot reach APNs with it, for "
                    + "\(queues.counted("queue")): \(Words.names(row.textArray("examples"), of: cut))",
                .advice(
                    "look for gateway_unreachable in their logs; check the network and developer.apple.com/system-status"
                ))
        }
    }
}

extension Statement {
    fileprivate static let unreachableAPNs = Statement(
        "unreachable_apns",
        #"""
        with alive as materialized (
          select name, unreachable from pushq.worker where seen_at > now() - interval '20 seconds'),
        cut_off as (
          select a.name as worker, n.tenant || '/' || coalesce(c.name, '-') as credential, q.id as queue
          from alive a
          cross join unnest(a.unreachable) u
          join pushq.queue q on q.id = u
          join pushq.queue_name n on n.queue_id = q.id
          left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id)
        select credential, count(distinct worker) as cut_off, count(distinct queue) as queues,
               (select count(*) from alive) as alive,
               (array_agg(distinct worker order by worker))[1:3] as examples
        from cut_off
        group by credential
        order by cut_off desc, credential
        limit 20
        """#)
}
