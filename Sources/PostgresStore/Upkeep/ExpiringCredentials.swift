package import QueueCore

extension Statement {
    /// Finds certificates that expire soon, if that was not reported yet. Each threshold is reported once, by the
    /// worker that notes it first. If a certificate has crossed several thresholds meanwhile, only the last one is
    /// reported. Thresholds are in days.
    static let noteExpiringCredentials = Statement(
        "note_expiring_credentials",
        #"""
        with near as materialized (
          select c.tenant_id, c.id, min(t) as days
          from pushq.credential c
          join unnest($thresholds::int[]) t on c.not_after <= now() + make_interval(days => t)
          group by c.tenant_id, c.id),
        -- A certificate that is being replaced at this moment need not be reported.
        free as materialized (
          select n.*
          from near n
          join pushq.credential c on c.tenant_id = n.tenant_id and c.id = n.id
          where c.warned_days is null or c.warned_days > n.days
          for no key update of c skip locked),
        noted as (
          update pushq.credential c
          set warned_days = n.days
          from free n
          where c.tenant_id = n.tenant_id and c.id = n.id and (c.warned_days is null or c.warned_days > n.days)
          returning c.tenant_id, c.id, c.name, c.not_after)
        select t.name as tenant, n.name, n.not_after, now() as now,
               (select count(*) from pushq.queue q where q.tenant_id = n.tenant_id and q.credential_id = n.id) as queues
        from noted n join pushq.tenant t on t.id = n.tenant_id
        order by n.not_after
        """#)
}

/// A certificate that expires soon, for a message to its owner.
package struct ExpiringCredential: Sendable {
    package let tenant: String
    package let name: String
    package let expiry: CredentialExpiry
    /// The number of queues that use it.
    package let queueCount: Int
}

extension PostgresConnection {
    /// Returns the certificates that have crossed a threshold of ``CredentialExpiry`` since the last call on this
    /// database.
    package func noteExpiringCredentials() async throws(PostgresError) -> [ExpiringCredential] {
        let thresholds = CredentialExpiry.thresholds.map(Int32.init)
        return try await execute(.noteExpiringCredentials, ["thresholds": .int4Array(thresholds)]).map { row in
            ExpiringCredential(
                tenant: row.text("tenant"), name: row.text("name"),
                expiry: CredentialExpiry(notAfter: row.time("not_after"), now: row.time("now")),
                queueCount: row.count("queues"))
        }
    }
}
