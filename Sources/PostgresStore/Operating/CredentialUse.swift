package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Gives a queue its credential, and lets it go on if a worker paused it because of the one before. $1 queue; $2 name.
    static let useCredential = Statement(
        "use_credential",
        #"""
        with found as materialized (
          select q.id as queue_id, c.id as credential_id
          from pushq.queue q join pushq.credential c on c.tenant_id = q.tenant_id and c.name = $2
          where q.id = pushq.queue_id($1)),
        given as (
          update pushq.queue q
          set credential_id = f.credential_id,
              paused_at = case when paused_credential_version is null then paused_at end,
              paused_reason = case when paused_credential_version is null then paused_reason end,
              paused_credential_version = null,
              resumed_at = case when paused_credential_version is null then resumed_at else clock_timestamp() end
          from found f where q.id = f.queue_id
          returning q.id)
        select exists (select from given), pushq.wake()::text
        """#)

    /// The queues of a credential's tenant that it is good for and that have none. $1 tenant_id; $2 id.
    static let useCredentialWhereNone = Statement(
        "use_credential_where_none",
        #"""
        update pushq.queue q
        set credential_id = c.id
        from pushq.credential c
        join pushq.tenant t on t.id = c.tenant_id
        join pushq.app a on a.tenant_id = c.tenant_id
        where c.tenant_id = $1 and c.id = $2 and q.tenant_id = c.tenant_id and q.app_id = a.id and q.credential_id is null
          and q.environment = any (c.environments) and (c.topics = '{}' or a.bundle_id = any (c.topics))
          and (c.not_after is null or c.not_after > now())
        returning t.name || '/' || a.bundle_id || '/' || q.environment, pushq.wake()::text
        """#)

    /// $1 tenant_id; $2 id.
    static let queuesOfCredential = Statement(
        "queues_of_credential",
        #"""
        select n.tenant, n.app, n.environment
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        where q.tenant_id = $1 and q.credential_id = $2
        order by n.app, n.environment
        """#)

    static let timeOfDatabase = Statement("time_of_database", "select now()")
}

extension PostgresConnection {
    /// Sends a queue with a credential of its tenant. False without such a credential; an unknown queue is an error.
    package func useCredential(_ name: String, forQueue queue: String) async throws(PostgresError) -> Bool {
        try await execute(.useCredential, [.text(queue), .text(name)]).first?.bool(0) ?? false
    }

    /// Sends all queues with a credential that it is good for and that have none. Returns their names.
    package func useCredentialWhereNone(_ id: CredentialID) async throws(PostgresError) -> [String] {
        try await execute(.useCredentialWhereNone, [.int4(id.tenantID), .int4(id.id)]).map { $0.text(0) }
    }

    /// The queues that are sent with a credential.
    package func queues(sentWith id: CredentialID) async throws(PostgresError) -> [QueueName] {
        try await execute(.queuesOfCredential, [.int4(id.tenantID), .int4(id.id)]).compactMap { row in
            Environment(rawValue: row.text(2)).map {
                QueueName(tenant: row.text(0), app: row.text(1), environment: $0)
            }
        }
    }

    /// The time by which it is decided whether a certificate holds.
    package func time() async throws(PostgresError) -> Date {
        guard let row = try await execute(.timeOfDatabase).first else {
            preconditionFailure("a select without a table gives one row")
        }
        return row.time(0)
    }
}
