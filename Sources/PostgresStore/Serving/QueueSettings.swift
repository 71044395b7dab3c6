package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Everything a worker must know of queues that it sends for. $1 queue_id[].
    static let queueSettings = Statement(
        "queue_settings",
        #"""
        select q.id, n.tenant, n.app, n.environment, q.weight::float8, q.connections, q.max_attempts, q.derive_collapse_id,
               p.rate, q.paused_at is not null or t.suspended_at is not null as paused,
               c.id, c.version, c.kind, c.team_id, c.key_id, c.sealed, q.tenant_id, c.not_after, now(),
               q.gateway
        from pushq.queue q
        join pushq.tenant t on t.id = q.tenant_id
        join pushq.queue_name n on n.queue_id = q.id
        left join pushq.pace p on p.queue_id = q.id
        left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
        where q.id = any ($1::int[])
        """#)

    /// Pauses a queue because of its credential, unless that was replaced meanwhile: a late refusal must not pause a repaired
    /// queue. A queue that somebody is changing is left alone. $1 queue; $2 reason; $3 the credential's version.
    static let pauseForCredential = Statement(
        "pause_for_credential",
        #"""
        with concerned as materialized (
          select q.id
          from pushq.queue q
          join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
          where q.id = $1 and q.paused_at is null and c.version = $3 and c.id = $4),
        free as materialized (
          select q.id
          from pushq.queue q
          join concerned c on c.id = q.id
          for no key update of q skip locked),
        paused as (
          update pushq.queue q
          set paused_at = now(), paused_reason = $2, paused_credential_version = $3
          from free f
          where q.id = f.id and q.paused_at is null
          returning q.id, pushq.tell('queue', q.id))
        select exists (select from paused), exists (select from concerned) and not exists (select from free)
        """#)
}

extension Statement {
    /// Which of these queues may not send at this moment: paused, or their tenant suspended. $1 queue_id[].
    static let haltedQueues = Statement(
        "halted_queues",
        #"""
        select q.id
        from unnest($1::int[]) g(id)
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
    /// Its share of a worker, against other queues.
    package let weight: Double
    /// Connections of one worker, at the most.
    package let connections: Int
    /// Answers for each recipient before it has failed.
    package let maxAttempts: Int
    /// The interface that it is sent over.
    package let gateway: GatewayKind
    /// Whether an alert without a collapse ID gets its recipient's apns-id as one.
    package let derivesCollapseID: Bool
    /// Pushes a second; nil: no limit.
    package let rate: Double?
    /// Paused, or its tenant is suspended.
    package var isPaused: Bool
    /// What APNs knows it by; nil: none was set.
    package let credential: StoredCredential?
}

/// A credential as it was before or after it was replaced. Versions count for each credential from 1, so a version alone names nothing.
package struct CredentialVersion: Hashable, Sendable {
    package let id: Int32
    package let version: Int32

    package init(id: Int32, version: Int32) {
        self.id = id
        self.version = version
    }

    package init(_ credential: StoredCredential) { self.init(id: credential.id, version: credential.version) }
}

/// A credential as it is stored: its secret is sealed under the master key.
package struct StoredCredential: Sendable, Equatable {
    /// How APNs authenticates by it.
    package enum Kind: Sendable, Equatable {
        /// A provider certificate with its key.
        case certificate
        /// A signing key of a team, by which provider tokens are made.
        case token(teamID: String, keyID: String)
    }

    package let id: Int32
    package let tenantID: Int32
    /// Grows when it is replaced.
    package let version: Int32
    package let kind: Kind
    package let sealed: [UInt8]
    /// When a certificate ceased to hold, by the database's clock; nil while it holds.
    package let expiredAt: Date?
}

extension PostgresConnection {
    /// The settings of queues; those that are gone are missing in the answer.
    package func queueSettings(_ queueIDs: [Int32]) async throws(PostgresError) -> [QueueSettings] {
        try await execute(.queueSettings, [.int4Array(queueIDs)]).compactMap(QueueSettings.init)
    }

    /// Which of `queueIDs` may not send at this moment.
    package func haltedQueues(_ queueIDs: [Int32]) async throws(PostgresError) -> [Int32] {
        try await execute(.haltedQueues, [.int4Array(queueIDs)]).map { $0.int4(0) }
    }

    /// The settings of a queue. An unknown queue is an error.
    package func queueSettings(named name: String) async throws(PostgresError) -> QueueSettings? {
        let ids = try await execute(.queueID, [.text(name)]).map { $0.int4(0) }
        return try await queueSettings(ids).first
    }

    /// Pauses a queue with `reason` if `credential` is still the one that it uses. Returns whether it did; nil if another transaction
    /// is changing the queue at this moment.
    package func pauseQueue(
        _ queueID: Int32, reason: String, credential: CredentialVersion
    ) async throws(PostgresError) -> Bool? {
        let row = try await execute(
            .pauseForCredential, [.int4(queueID), .text(reason), .int4(credential.version), .int4(credential.id)]
        ).first
        return row?.bool(1) == true ? nil : row?.bool(0)
    }
}

extension QueueSettings {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(3)) else { return nil }
        self.init(
            queueID: row.int4(0), tenantID: row.int4(16),
            name: QueueName(tenant: row.text(1), app: row.text(2), environment: environment),
            weight: row.float8(4), connections: Int(row.int2(5)), maxAttempts: Int(row.int2(6)),
            gateway: GatewayKind(rawValue: row.text(19)) ?? .http2, derivesCollapseID: row.bool(7),
            rate: row.optionalFloat8(8), isPaused: row.bool(9),
            credential: StoredCredential(row))
    }
}

extension StoredCredential {
    fileprivate init?(_ row: Row) {
        guard let id = row.optionalInt4(10) else { return nil }
        let kind: Kind =
            if row.text(12) == "token" { .token(teamID: row.text(13), keyID: row.text(14)) } else { .certificate }
        self.init(
            id: id, tenantID: row.int4(16), version: row.int4(11), kind: kind, sealed: row.bytes(15),
            expiredAt: row.optionalTime(17).flatMap { $0 <= row.time(18) ? $0 : nil })
    }
}
