import QueueCore

extension HealthCheck {
    static let apns = HealthCheck(
        "apns", "workers that cannot reach APNs, or of which it takes hardly any push for now, by credential"
    ) { connection in
        let unreachable = try await connection.execute(.unreachableAPNs).map { row in
            HealthFinding(
                troubleIn: row, "cannot reach APNs with it",
                .advice(
                    "gateway_unreachable and clock_in_doubt in their logs say why; see developer.apple.com/system-status"
                ))
        }
        let refusing = try await connection.execute(.refusingAPNs).map { row in
            HealthFinding(
                troubleIn: row, "had hardly any push taken with it",
                .advice(
                    "look up the answer in docs/apns.md; see developer.apple.com/system-status. Pushes wait, and are tried again"
                ))
        }
        return unreachable + refusing
    }

    static let unusableCredentials = HealthCheck(
        "unusable_credentials",
        "workers that cannot use a credential, for instance without the master key that sealed it"
    ) { connection in
        try await connection.execute(.unusableCredentials).map { row in
            HealthFinding(
                troubleIn: row, "cannot use it",
                .advice(
                    "give these workers what they lack, and start them again; their logs have credential_unreadable"))
        }
    }
}

extension HealthFinding {
    /// - Parameter what: what is wrong with the workers, as the end of a sentence that begins with their number.
    fileprivate init(troubleIn row: Row, _ what: String, _ remedy: Remedy) {
        let (troubled, alive, queues) = (row.count("troubled"), row.count("alive"), row.count("queues"))
        self.init(
            row.bool("are_all") ? .error : .warning, "credential \(row.text("credential"))",
            "\(troubled) of \(alive.counted("worker")) \(what), for \(queues.counted("queue")): "
                + Words.names(row.textArray("examples"), of: troubled)
                + (row.optionalText("reason").map { " (\($0))" } ?? ""), remedy)
    }
}

extension Statement {
    fileprivate static let unreachableAPNs = Statement(
        "unreachable_apns", trouble("cross join lateral (select unnest(a.unreachable) as queue_id, null as reason) u"))
    fileprivate static let refusingAPNs = Statement(
        "refusing_apns",
        trouble(
            """
            cross join lateral (
                select queue_id, 'APNs answers ' || answer
                from unnest(a.in_outage, a.refusals) t(queue_id, answer)) u(queue_id, reason)
            """))
    fileprivate static let unusableCredentials = Statement(
        "unusable_credentials", trouble("cross join lateral unnest(a.unusable, a.faults) u(queue_id, reason)"))

    /// What running workers report about queues, by credential. A worker has a row for each of its engines, which have
    /// connections of their own. Only engines count that serve one of these queues.
    private static func trouble(_ ofQueues: String) -> String {
        #"""
        with alive as materialized (
          select id, name, unreachable, in_outage, refusals, unusable, faults, \#(Statement.patternOfQueues) as pattern
          from pushq.worker
          where pushq.is_alive(seen_at) and not draining),
        troubled as (
          select a.id as engine, a.name as worker, n.tenant || '/' || coalesce(c.name, '-') as credential,
                 n.name as queue, u.reason
          from alive a
          \#(ofQueues)
          join pushq.queue q on q.id = u.queue_id
          join pushq.queue_name n on n.queue_id = q.id
          left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id),
        grouped as (
          select credential, count(distinct engine) as engines, count(distinct worker) as workers,
                 count(distinct queue) as queues, array_agg(distinct queue) as names, min(reason) as reason,
                 (array_agg(distinct worker order by worker))[1:3] as examples
          from troubled
          group by credential
          order by engines desc, credential
          limit \#(HealthCheck.queryLimit))
        select g.credential, g.workers as troubled, s.workers as alive, g.engines >= s.engines as are_all, g.queues,
               g.reason, g.examples
        from grouped g
        cross join lateral (
          select count(*) as engines, count(distinct a.name) as workers
          from alive a
          where exists (select from unnest(g.names) t(queue) where t.queue like a.pattern)) s
        order by g.engines desc, g.credential
        """#
    }
}
