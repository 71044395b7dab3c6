package import QueueCore

extension Statement {
    /// Finds certificates that expire soon, if that was not reported yet. Each threshold is reported once, by the
    /// worker that notes it first. If a certificate has crossed several thresholds meanwhile, only the last one is
    /// reported. Thresholds are in days.
    ///
    /// A certificate with more time left than at its last warning had that warning while the database's clock was
    /// ahead. The statement forgets the warning, so that the next call reports the certificate by the right time. A day
    /// is left for smaller corrections of the clock, which must not repeat a warning.
    static let noteExpiringCredentials = Statement(
        "note_expiring_credentials",
        #"""
        with due as materialized (
          select c.tenant_id, c.id, min(t) as days
          from pushq.credential c
          join unnest($thresholds::int[]) t on c.not_after <= now() + make_interval(days => t)
          group by c.tenant_id, c.id
          having c.warned_days is null or c.warned_days > min(t)),
        -- A certificate that is being replaced at this moment need not be reported. One whose queue is being paused is
        -- locked, too, and is reported next time.
        free as materialized (
          select d.*
          from due d
          join pushq.credential c on c.tenant_id = d.tenant_id and c.id = d.id
          for no key update of c skip locked),
        noted as (
          update pushq.credential c
          set warned_days = f.days
          from free f
          where c.tenant_id = f.tenant_id and c.id = f.id and (c.warned_days is null or c.warned_days > f.days)
          returning c.tenant_id, c.id),
        premature as materialized (
          select tenant_id, id
          from pushq.credential
          where not_after > now() + make_interval(days => warned_days + 1)
          for no key update skip locked),
        forgotten as (
          update pushq.credential c
          set warned_days = null
          from premature p
          where c.tenant_id = p.tenant_id and c.id = p.id
            and c.not_after > now() + make_interval(days => c.warned_days + 1))
        select t.name as tenant, c.name, c.not_after, now() as now, n.id is not null as is_noted,
               (select count(*) from pushq.queue q where q.tenant_id = c.tenant_id and q.credential_id = c.id) as queues
        from due d
        join pushq.credential c on c.tenant_id = d.tenant_id and c.id = d.id
        join pushq.tenant t on t.id = d.tenant_id
        left join noted n on n.tenant_id = d.tenant_id and n.id = d.id
        order by c.not_after
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
    /// database, and whether these are all: another transaction may hold some at this moment.
    package func noteExpiringCredentials() async throws(PostgresError) -> (noted: [ExpiringCredential], areAll: Bool) {
        let thresholds = CredentialExpiry.thresholds.map(Int32.init)
        let due = try await execute(.noteExpiringCredentials, ["thresholds": .int4Array(thresholds)]).map { row in
            (
                isNoted: row.bool("is_noted"),
                credential: ExpiringCredential(
                    tenant: row.text("tenant"), name: row.text("name"),
                    expiry: CredentialExpiry(notAfter: row.time("not_after"), now: row.time("now")),
                    queueCount: row.count("queues"))
            )
        }
        return (due.filter(\.isNoted).map(\.credential), due.allSatisfy(\.isNoted))
    }
}
