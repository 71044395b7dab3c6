package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Everything a worker must know of queues that it sends for.
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

    /// Pauses a queue because of its credential, unless that was replaced meanwhile: a late refusal must not pause a
    /// repaired queue. A queue that somebody is changing is left alone, and so is one whose credential somebody is
    /// replacing: who does that resumes the queues that he finds paused.
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
          set paused_at = now(), paused_reason = $reason, paused_credential_version = $version
          from free f
          where q.id = f.id and q.paused_at is null
          returning q.id, pushq.tell('queue', q.id))
        select exists (select from paused) as has_paused,
               exists (select from concerned) and not exists (select from free) as is_locked
        """#)
}

extension Statement {
    /// Which of these queues may not send at this moment: paused, or their tenant suspended.
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

/// What a worker knows of a queue.
package struct QueueSettings: Sendable {
    package let queueID: Int32
    package let tenantID: Int32
    package let name: QueueName
    /// Its share of what its tenant has of a worker, and the share of that tenant.
    package let weight: Double
    package let tenantWeight: Double
    /// The maximum number of connections of one worker: of each credential that queues with this setting share, and of
    /// all queues of the tenant together; nil: no limit.
    package let connections: Int
    package let tenantConnections: Int?
    /// Answers for each recipient before it has failed.
    package let maxAttempts: Int
    /// The interface that it is sent over.
    package let gateway: GatewayKind
    /// Whether an alert without a collapse ID gets its recipient's apns-id as one.
    package let derivesCollapseID: Bool
    /// Pushes per second, of the queue and of all queues of its tenant together; nil: no limit.
    package let rate: Double?
    package let tenantRate: Double?
    /// Paused, or its tenant is suspended.
    package var isPaused: Bool
    /// What APNs knows it by; nil: none was set.
    package let credential: StoredCredential?
    /// What its frequency cap is for; nil if it has none.
    package var cap: CapRule? = nil
    /// What its quiet hours are for.
    package var quiet = QuietRule()
}

/// A credential as it was before or after it was replaced. Versions count for each credential from 1, so a version
/// alone names nothing. After a restore they count from an earlier one again, and only the time tells two apart.
package struct CredentialVersion: Hashable, Sendable {
    package let id: Int32
    package let version: Int32
    /// When the version came to be by a replacement; nil for the first.
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

/// A credential as it is stored: its secret is sealed under the master key.
package struct StoredCredential: Sendable, Equatable {
    /// How APNs authenticates by it.
    package enum Kind: Sendable, Equatable {
        /// A provider certificate with its key; the SHA-256 of the certificate.
        case certificate(fingerprint: [UInt8])
        /// A signing key of a team, by which provider tokens are made.
        case token(teamID: String, keyID: String)
    }

    package let id: Int32
    package let tenantID: Int32
    /// Grows when it is replaced.
    package let version: Int32
    /// When it was replaced last.
    package var replacedAt: Date? = nil
    package let kind: Kind
    package let sealed: [UInt8]
    /// When a certificate ceased to hold, by the database's clock; nil while it holds.
    package let expiredAt: Date?
}

extension PostgresConnection {
    /// The settings of queues. Those that are gone, or that only a newer version can serve, are missing in the answer.
    package func queueSettings(_ queueIDs: [Int32]) async throws(PostgresError) -> [QueueSettings] {
        try await execute(.queueSettings, ["queue_ids": .int4Array(queueIDs)]).compactMap(QueueSettings.init)
    }

    /// Which of `queueIDs` may not send at this moment.
    package func haltedQueues(_ queueIDs: [Int32]) async throws(PostgresError) -> [Int32] {
        try await execute(.haltedQueues, ["queue_ids": .int4Array(queueIDs)]).map { $0.int4("id") }
    }

    /// The settings of a queue. An unknown queue is an error.
    package func queueSettings(named name: QueueName) async throws(PostgresError) -> QueueSettings? {
        let id = try await execute(.enterQueue, ["queue": .queue(name)]).one().int4("queue_id")
        return try await queueSettings([id]).first
    }

    /// Pauses a queue with `reason` if `credential` is still the one that it uses. Returns whether it did; nil if
    /// another transaction is changing the queue at this moment.
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
        // An older worker leaves a queue alone of which it does not know the environment or the interface.
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
