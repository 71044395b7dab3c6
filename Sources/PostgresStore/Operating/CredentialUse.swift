package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Gives a queue its credential, and lets it go on if a worker paused it because of the one before.
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
              paused_credential_version = null,
              resumed_at = case when paused_credential_version is null then resumed_at else clock_timestamp() end
          from found f where q.id = f.queue_id
          returning q.id)
        select exists (select from given) as was_given, pushq.wake()::text
        """#)

    /// The queues of a credential's tenant that it is good for and that have none.
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
          and q.environment = any (c.environments) and (c.topics = '{}' or a.bundle_id = any (c.topics))
          and (c.not_after is null or c.not_after > now())
        returning t.name || '/' || a.bundle_id || '/' || q.environment as queue, pushq.wake()::text
        """#)

    static let queuesOfCredential = Statement(
        "queues_of_credential",
        #"""
        select n.tenant, n.app, n.environment
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        where q.tenant_id = $tenant_id and q.credential_id = $id
        order by n.app, n.environment
        """#)

    static let timeOfDatabase = Statement("time_of_database", "select now() as now")
}

extension PostgresConnection {
    /// Sends a queue with a credential of its tenant. False without such a credential; an unknown queue is an error.
    package func useCredential(_ name: String, forQueue queue: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.useCredential, ["queue": .queue(queue), "name": .text(name)]).one().bool("was_given")
    }

    /// Sends all queues with a credential that it is good for and that have none. Returns their names.
    package func useCredentialWhereNone(_ id: CredentialID) async throws(PostgresError) -> [String] {
        try await execute(.useCredentialWhereNone, id.parameters).map { $0.text("queue") }
    }

    /// The queues that are sent with a credential.
    package func queues(sentWith id: CredentialID) async throws(PostgresError) -> [QueueName] {
        try await execute(.queuesOfCredential, id.parameters).compactMap(QueueName.init)
    }

    /// The time by which it is decided whether a certificate holds.
    package func time() async throws(PostgresError) -> Date {
        try await execute(.timeOfDatabase).one().time("now")
    }
}
