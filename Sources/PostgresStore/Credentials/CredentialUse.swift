package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Gives a queue its credential, and resumes the queue if a worker paused it because of the previous one.
    static let useCredential = Statement(
        "use_credential",
        #"""
        with found as materialized (
          select q.id as queue_id, c.id as credential_id
          from pushq.queue q join pushq.credential c on c.tenant_id = q.tenant_id and c.name = $name
          where q.id = pushq.queue_id($queue)),
        given as (
          update pushq.queue q
          set credential_id = f.credential_id,
              paused_at = case when paused_credential_version is null then paused_at end,
              paused_reason = case when paused_credential_version is null then paused_reason end,
              paused_credential_version = null, credential_refusals = 0,
              resumed_at = case when paused_credential_version is null then resumed_at else clock_timestamp() end
          from found f where q.id = f.queue_id
          returning q.id)
        select exists (select from given) as was_given, pushq.wake()::text
        """#)

    /// Gives a credential to the queues of its tenant that have none and that it fits.
    static let useCredentialWhereNone = Statement(
        "use_credential_where_none",
        #"""
        update pushq.queue q
        set credential_id = c.id
        from pushq.credential c
        join pushq.tenant t on t.id = c.tenant_id
        join pushq.app a on a.tenant_id = c.tenant_id
        where c.tenant_id = $tenant_id and c.id = $id and q.tenant_id = c.tenant_id and q.app_id = a.id
          and q.credential_id is null
          and pushq.credential_fits(c, a.bundle_id, q.environment, q.gateway)
        returning t.name || '/' || a.bundle_id || '/' || q.environment as queue, pushq.wake()::text
        """#)

    /// The credential of a queue, and those of its tenant that fit it.
    static let credentialChoice = Statement(
        "credential_choice",
        #"""
        select (
                 select x.name
                 from pushq.credential x
                 where x.tenant_id = q.tenant_id and x.id = q.credential_id) as used,
               array(
                 select c.name from pushq.credential c
                 where c.tenant_id = q.tenant_id and pushq.credential_fits(c, n.app, q.environment, q.gateway)
                 order by c.name) as fitting
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        where q.id = pushq.queue_id($queue)
        """#)

    static let queuesOfCredential = queues(
        "queues_of_credential", where: "q.tenant_id = $tenant_id and q.credential_id = $id")
    static let pausesOfCredential = Statement(
        "pauses_of_credential",
        #"""
        select n.tenant, n.app, n.environment, coalesce(q.paused_reason, '') as reason
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        where q.tenant_id = $tenant_id and q.credential_id = $id and q.paused_at is not null
        order by n.app, n.environment
        """#)
    static let queuesWithNone = queues(
        "queues_with_none",
        where: "n.tenant = $tenant and q.credential_id is null and (q.gateway <> 'binary' or $kind = 'certificate')")

    private static func queues(_ name: String, where condition: String) -> Statement {
        Statement(
            name,
            #"""
            select n.tenant, n.app, n.environment
            from pushq.queue q
            join pushq.queue_name n on n.queue_id = q.id
            where \#(condition)
            order by n.app, n.environment
            """#)
    }

    static let timeOfDatabase = Statement("time_of_database", "select now() as now")
}

/// The names of a tenant's credentials, as they concern one queue.
package struct CredentialChoice: Sendable {
    /// The one that the queue uses.
    package let used: String?
    /// Those that fit the queue, in the order of their names.
    package let fitting: [String]
}

extension PostgresConnection {
    /// Assigns a credential of its tenant to a queue. Returns false if there is no such credential. An unknown queue is
    /// an error.
    package func useCredential(_ name: String, forQueue queue: QueueName) async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            return try await execute(.useCredential, ["queue": .queue(queue), "name": .text(name)]).one()
                .bool("was_given")
        } catch {
            // The credential was removed meanwhile.
            guard error.violates("queue_credential_exists") else { throw error }
            return false
        }
    }

    /// Returns which credential a queue uses, and which it could use. An unknown queue is an error.
    package func credentialChoice(for queue: QueueName) async throws(PostgresError) -> CredentialChoice {
        let row = try await execute(.credentialChoice, ["queue": .queue(queue)]).one()
        return CredentialChoice(used: row.optionalText("used"), fitting: row.textArray("fitting"))
    }

    /// Assigns a credential to all queues that have none and that it is valid for. Returns their names.
    package func useCredentialWhereNone(_ id: CredentialID) async throws(PostgresError) -> [String] {
        try await execute(.useCredentialWhereNone, id.parameters).map { $0.text("queue") }
    }

    /// Returns the queues that use a credential.
    package func queues(sentWith id: CredentialID) async throws(PostgresError) -> [QueueName] {
        try await execute(.queuesOfCredential, id.parameters).compactMap(QueueName.init)
    }

    /// Returns why queues that use a credential are paused, in the order of their names.
    package func pauses(of id: CredentialID) async throws(PostgresError) -> [(queue: QueueName, reason: String)] {
        try await execute(.pausesOfCredential, id.parameters).compactMap { row in
            QueueName(row).map { ($0, row.text("reason")) }
        }
    }

    /// Returns the queues of a tenant that have no credential, and whose interface takes one of this kind.
    package func queuesWithoutCredential(
        of tenant: String, for kind: CredentialScope.Kind
    ) async throws(PostgresError) -> [QueueName] {
        try await execute(.queuesWithNone, ["tenant": .text(tenant), "kind": .text(kind.rawValue)])
            .compactMap(QueueName.init)
    }

    /// Returns the database's time, which decides whether a certificate is valid.
    package func time() async throws(PostgresError) -> Date {
        try await execute(.timeOfDatabase).one().time("now")
    }
}
