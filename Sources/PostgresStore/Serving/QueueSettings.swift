package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Reads everything that a worker must know about the queues that it sends for.
    static let queueSettings = Statement(
        "queue_settings",
        #"""
        select q.id as queue_id, n.tenant, n.app, n.environment, q.weight::float8, q.connections, q.max_attempts,
               q.gateway, q.derive_collapse_id, p.rate, tp.rate as tenant_rate, t.weight::float8 as tenant_weight,
               t.connections as tenant_connections,
               q.paused_at is not null or t.suspended_at is not null as paused,
               f.includes_urgent as cap_includes_urgent,
               (extract(epoch from f.set_at) * 1000000)::bigint as cap_set_at,
               (extract(epoch from case when f.period is null then interval '0' else pushq.cap_window(f.period) end)
                 * 1000000)::bigint as cap_window,
               h.includes_urgent as quiet_includes_urgent,
               c.id as credential_id, q.tenant_id, c.version, c.replaced_at, c.kind, c.team_id, c.key_id,
               c.fingerprint, c.sealed,
               case when c.not_after <= now() then c.not_after end as expired_at
        from pushq.queue q
        join pushq.tenant t on t.id = q.tenant_id
        join pushq.queue_name n on n.queue_id = q.id
        left join pushq.rate_limit p on p.tenant_id = q.tenant_id and p.queue_id = q.id and p.campaign_id = 0
        left join pushq.rate_limit tp on tp.tenant_id = q.tenant_id and tp.queue_id = 0 and tp.campaign_id = 0
        left join pushq.frequency_cap f on f.queue_id = q.id
        left join pushq.quiet_hours h on h.queue_id = q.id
        left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
        where q.id = any ($queue_ids::int[])
        """#)

    /// Pauses a queue because of its credential, unless the credential was replaced meanwhile: a late refusal must not
    /// pause a repaired queue. Leaves alone a queue that another transaction is changing, or whose credential another
    /// transaction is replacing, because a replacement resumes the queues that it finds paused.
    static let pauseForCredential = Statement(
        "pause_for_credential",
        #"""
        with concerned as materialized (
          select q.id
          from pushq.queue q
          join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
          where q.id = $queue_id and q.paused_at is null and c.version = $version and c.id = $credential_id),
        free as materialized (
          select q.id
          from pushq.queue q
          join concerned on concerned.id = q.id
          join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
          where c.version = $version and c.id = $credential_id
          for no key update of q skip locked
          for share of c skip locked),
        paused as (
          update pushq.queue q
          set paused_at = now(), paused_reason = $reason, paused_credential_version = $version,
              -- In a row, if the queue was resumed a short time ago.
              credential_refusals = least(
                1 + case when q.resumed_at > now() - interval '1 hour' then q.credential_refusals else 0 end, 100)
          from free f
          where q.id = f.id and q.paused_at is null
          returning q.id, pushq.tell('queue', q.id))
        select exists (select from paused) as has_paused,
               exists (select from concerned) and not exists (select from free) as is_locked
        """#)
}

extension Statement {
    /// Finds queues that may not send at this moment: they are paused, or their tenant is suspended.
    static let haltedQueues = Statement(
        "halted_queues",
        #"""
        select q.id
        from unnest($queue_ids::int[]) g(id)
        join pushq.queue q on q.id = g.id
        join pushq.tenant t on t.id = q.tenant_id
        where q.paused_at is not null or t.suspended_at is not null
        """#)
}

/// What a worker knows about a queue.
package struct QueueSettings: Sendable {
    package let queueID: Int32
    package let tenantID: Int32
    package let name: QueueName
    /// The queue's share of its tenant's part of a worker, and the tenant's share.
    package let weight: Double
    package let tenantWeight: Double
    /// The maximum number of connections of one worker: for each credential that queues with this setting share, and
    /// for all queues of the tenant together; nil: no limit.
    package let connections: Int
    package let tenantConnections: Int?
    /// The number of answers after which a recipient has failed.
    package let maxAttempts: Int
    /// The interface through which the queue's pushes are sent.
    package let gateway: GatewayKind
    /// Whether an alert without a collapse ID gets its recipient's apns-id as collapse ID.
    package let derivesCollapseID: Bool
    /// The rates in pushes per second, of the queue and of all queues of its tenant together; nil: no limit.
    package let rate: Double?
    package let tenantRate: Double?
    /// Whether the queue is paused or its tenant is suspended.
    package var isPaused: Bool
    /// The credential with which the worker authenticates to APNs; nil if the queue has none.
    package let credential: StoredCredential?
    /// What the queue's frequency cap applies to; nil if it has none.
    package var cap: CapRule? = nil
    /// What the queue's quiet hours apply to.
    package var quiet = QuietRule()
}

/// One version of a credential. Each credential counts its versions from 1, so a version alone identifies nothing.
/// After a restore, a credential counts on from an earlier version, and only the time tells two versions apart.
package struct CredentialVersion: Hashable, Sendable {
    package let id: Int32
    package let version: Int32
    /// When this version began; nil for the first version.
    package let replacedAt: Date?

    package init(id: Int32, version: Int32, replacedAt: Date? = nil) {
        self.id = id
        self.version = version
        self.replacedAt = replacedAt
    }

    package init(_ credential: StoredCredential) {
        self.init(id: credential.id, version: credential.version, replacedAt: credential.replacedAt)
    }
}

/// A credential as stored: its secret is sealed with the master key.
package struct StoredCredential: Sendable, Equatable {
    /// How the credential authenticates to APNs.
    package enum Kind: Sendable, Equatable {
        /// A provider certificate with its key, identified by the SHA-256 of the certificate.
        case certificate(fingerprint: [UInt8])
        /// A team's signing key, with which provider tokens are signed.
        case token(teamID: String, keyID: String)
    }

    package let id: Int32
    package let tenantID: Int32
    /// Grows with each replacement, and with each resume after a refusal.
    package let version: Int32
    /// When this version began.
    package var replacedAt: Date? = nil
    package let kind: Kind
    package let sealed: [UInt8]
    /// When the certificate expired; nil while it is valid by the database's clock.
    package let expiredAt: Date?
}

extension PostgresConnection {
    /// Returns the settings of queues. Leaves out queues that do not exist any more, or that only a newer version can
    /// serve.
    package func queueSettings(_ queueIDs: [Int32]) async throws(PostgresError) -> [QueueSettings] {
        try await execute(.queueSettings, ["queue_ids": .int4Array(queueIDs)]).compactMap(QueueSettings.init)
    }

    /// Returns the queues of `queueIDs` that may not send at this moment.
    package func haltedQueues(_ queueIDs: [Int32]) async throws(PostgresError) -> [Int32] {
        try await execute(.haltedQueues, ["queue_ids": .int4Array(queueIDs)]).map { $0.int4("id") }
    }

    /// Returns the settings of a queue. Throws if the queue does not exist.
    package func queueSettings(named name: QueueName) async throws(PostgresError) -> QueueSettings? {
        let id = try await execute(.enterQueue, ["queue": .queue(name)]).one().int4("queue_id")
        return try await queueSettings([id]).first
    }

    /// Pauses a queue with `reason` if it still uses `credential`. Returns whether it did; nil if another transaction
    /// is changing the queue at this moment.
    package func pauseQueue(
        _ queueID: Int32, reason: String, credential: CredentialVersion
    ) async throws(PostgresError) -> Bool? {
        let parameters: Parameters = [
            "queue_id": .int4(queueID), "reason": .text(reason), "version": .int4(credential.version),
            "credential_id": .int4(credential.id),
        ]
        let row = try await execute(.pauseForCredential, parameters).one()
        return row.bool("is_locked") ? nil : row.bool("has_paused")
    }
}

extension QueueSettings {
    fileprivate init?(_ row: Row) {
        // A worker leaves a queue alone if only a newer version knows its environment or interface.
        guard let name = QueueName(row), let gateway = GatewayKind(rawValue: row.text("gateway")) else { return nil }
        self.init(
            queueID: row.int4("queue_id"), tenantID: row.int4("tenant_id"), name: name, weight: row.float8("weight"),
            tenantWeight: row.float8("tenant_weight"), connections: Int(row.int2("connections")),
            tenantConnections: row.optionalInt4("tenant_connections").map(Int.init),
            maxAttempts: Int(row.int2("max_attempts")),
            gateway: gateway, derivesCollapseID: row.bool("derive_collapse_id"), rate: row.optionalFloat8("rate"),
            tenantRate: row.optionalFloat8("tenant_rate"), isPaused: row.bool("paused"),
            credential: StoredCredential(row),
            cap: row.optionalInt8("cap_set_at").map {
                CapRule(
                    includesUrgent: row.bool("cap_includes_urgent"), setAt: $0,
                    window: .microseconds(row.int8("cap_window")))
            },
            quiet: QuietRule(
                areSet: !row.isNull("quiet_includes_urgent"),
                includesUrgent: !row.isNull("quiet_includes_urgent") && row.bool("quiet_includes_urgent")))
    }
}

extension StoredCredential {
    fileprivate init?(_ row: Row) {
        guard let id = row.optionalInt4("credential_id") else { return nil }
        let kind: Kind =
            row.text("kind") == "token"
            ? .token(teamID: row.text("team_id"), keyID: row.text("key_id"))
            : .certificate(fingerprint: row.bytes("fingerprint"))
        self.init(
            id: id, tenantID: row.int4("tenant_id"), version: row.int4("version"),
            replacedAt: row.optionalTime("replaced_at"), kind: kind, sealed: row.bytes("sealed"),
            expiredAt: row.optionalTime("expired_at"))
    }
}
