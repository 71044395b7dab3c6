package import FoundationEssentials

extension Statement {
    static let createTenant = Statement(
        "create_tenant",
        #"""
        insert into pushq.tenant (name)
        values ($name)
        on conflict on constraint tenant_name_once do nothing
        returning id
        """#
    )

    static let tenants = Statement(
        "tenants",
        #"""
        select t.name,
               (select count(*) from pushq.app a where a.tenant_id = t.id) as apps,
               (select count(*) from pushq.queue q where q.tenant_id = t.id) as queues,
               (select count(*) from pushq.credential c where c.tenant_id = t.id) as credentials,
               t.suspended_at is not null as is_suspended,
               t.created_at,
               t.history_days, t.feedback_days, t.audit_days, t.key_days, t.weight::float8, t.connections, p.rate,
               p.burst
        from pushq.tenant t
        left join pushq.rate_limit p on p.tenant_id = t.id and p.queue_id = 0 and p.campaign_id = 0
        where ($name::text is null or t.name = $name)
          and ($matching::text is null or position(lower($matching) in t.name) > 0)
        order by t.name
        limit $limit
        """#)

    static let checkTenant = Statement("check_tenant", "select pushq.check_tenant($tenant)")

    /// Accepts a removed tenant that has entries in the audit, so that they stay readable.
    static let checkAuditedTenant = Statement(
        "check_audited_tenant",
        "select pushq.check_tenant($tenant) where not exists (select from pushq.audit a where a.tenant = $tenant)")

    static let suspendTenant = Statement(
        "suspend_tenant", "select pushq.suspend_tenant($name, $suspended)::int as has_changed")

    static let tenantNames = Statement("tenant_names", "select t.name from pushq.tenant t")

    /// Null leaves a setting unchanged; 0 days is the usual period, and 0 connections is no limit.
    static let setTenant = Statement(
        "set_tenant",
        #"""
        update pushq.tenant
        set history_days = case when $history_days::int is null then history_days else nullif($history_days, 0) end,
            feedback_days = case when $feedback_days::int is null then feedback_days else nullif($feedback_days, 0) end,
            audit_days = case when $audit_days::int is null then audit_days else nullif($audit_days, 0) end,
            key_days = case when $key_days::int is null then key_days else nullif($key_days, 0) end,
            weight = coalesce($weight::float8::real, weight),
            connections = case when $connections::int is null then connections else nullif($connections, 0) end
        where name = $name
        returning pushq.tell('tenant', id)::text
        """#)

    /// The burst has the same default as a queue's.
    static let setTenantRate = Statement(
        "set_tenant_rate",
        #"""
        insert into pushq.rate_limit (tenant_id, rate, burst)
        select t.id, $rate::float8, coalesce($burst::float8, greatest(1, ceil($rate::float8 / 10)))
        from pushq.tenant t
        where t.name = $name
        on conflict on constraint rate_limit_pkey do update set rate = excluded.rate, burst = excluded.burst
        returning pushq.tell('tenant', tenant_id)::text
        """#)

    static let liftTenantRate = Statement(
        "lift_tenant_rate",
        #"""
        delete from pushq.rate_limit p
        using pushq.tenant t
        where t.name = $name and p.tenant_id = t.id and p.queue_id = 0 and p.campaign_id = 0
        returning pushq.tell('tenant', t.id)::text
        """#)
}

/// A tenant as an operator sees it.
package struct TenantSummary: Sendable {
    package let name: String
    package let appCount: Int
    package let queueCount: Int
    package let credentialCount: Int
    package let isSuspended: Bool
    package let createdAt: Date
    /// For how many days its results, recipients and messages are kept, and its feedback; nil: the usual period.
    package let historyDays: Int?
    package let feedbackDays: Int?
    /// The same for entries of the audit about the tenant.
    package let auditDays: Int?
    /// The same for the keys of its sends, counted from when the sends were due.
    package let keyDays: Int?
    /// Its share of a worker, relative to other tenants.
    package let weight: Double
    /// The maximum number of connections that one worker opens for all its queues together; nil: no limit.
    package let connections: Int?
    /// Pushes per second for all its queues together, and how many at once after a quiet time; nil: no limit.
    package let rate: Double?
    package let burst: Double?
}

/// How long a kind of a tenant's data is kept.
package enum RetentionDays: Equatable, Sendable {
    /// The period that workers use for all tenants: ``Retention``.
    case usual
    /// This many days after the day on which it was written: 1 to 3650.
    case days(Int)

    /// The value as it is stored.
    var stored: Int32 {
        switch self {
        case .usual: 0
        case .days(let count): Int32(clamping: count)
        }
    }
}

/// What `tenant set` may change; nil leaves a setting as it is.
package struct TenantChange: Sendable {
    /// The rate limit of all its queues together.
    package enum Rate: Sendable {
        /// The number of pushes per second, and the burst; nil: the pushes of a tenth of a second.
        case limit(Double, burst: Double?)
        case noLimit
    }

    /// How long its results, recipients and messages are kept, and its feedback.
    package var history: RetentionDays?
    package var feedback: RetentionDays?
    package var audit: RetentionDays?
    package var keys: RetentionDays?
    /// Its share of a worker, relative to other tenants: 0.001 to 1000.
    package var weight: Double?
    package var rate: Rate?
    /// The maximum number of connections that one worker opens for all its queues together: 1 to 10,000.
    package var connections: Quota?
    package var quotas = QuotaChange()

    /// No change.
    package init() {}

    /// Whether it changes nothing.
    package var isEmpty: Bool {
        !deletes && weight == nil && rate == nil && connections == nil && quotas.isEmpty
    }

    /// Whether the change may delete data, because it changes how long something is kept.
    package var deletes: Bool { history != nil || feedback != nil || audit != nil || keys != nil }
}

extension PostgresConnection {
    /// Throws if there is no tenant of this name, because a list for it would be empty, as if it had nothing. For
    /// operators.
    /// - Parameter includingRemoved: whether a removed tenant is accepted if the audit knows it.
    package func checkTenant(_ name: String?, includingRemoved: Bool = false) async throws(PostgresError) {
        guard let name else { return }
        _ = try await execute(includingRemoved ? .checkAuditedTenant : .checkTenant, ["tenant": .text(name)])
    }

    /// Returns the names of all tenants. Workers may call it, too.
    package func tenantNames() async throws(PostgresError) -> Set<String> {
        Set(try await execute(.tenantNames).map { $0.text("name") })
    }

    /// Creates a tenant. Returns false if there is one of that name.
    package func createTenant(_ name: String) async throws(PostgresError) -> Bool {
        try await execute(.createTenant, ["name": .text(name)]).count > 0
    }

    /// Returns all tenants, or the one of that name, by name.
    package func tenants(
        named name: String? = nil, _ selection: ListSelection = ListSelection()
    ) async throws(PostgresError) -> [TenantSummary] {
        try await execute(.tenants, ["name": .text(name)] + selection.parameters).map { row in
            TenantSummary(
                name: row.text("name"), appCount: row.count("apps"), queueCount: row.count("queues"),
                credentialCount: row.count("credentials"), isSuspended: row.bool("is_suspended"),
                createdAt: row.time("created_at"),
                historyDays: row.optionalInt4("history_days").map(Int.init),
                feedbackDays: row.optionalInt4("feedback_days").map(Int.init),
                auditDays: row.optionalInt4("audit_days").map(Int.init),
                keyDays: row.optionalInt4("key_days").map(Int.init), weight: row.float8("weight"),
                connections: row.optionalInt4("connections").map(Int.init),
                rate: row.optionalFloat8("rate"), burst: row.optionalFloat8("burst"))
        }
    }

    /// Suspends a tenant, so that nothing is sent for it, or ends its suspension. Returns whether anything changed; nil
    /// if there is no such tenant. Throws if the tenant is in another database or is being moved to one.
    package func setTenant(_ name: String, isSuspended: Bool) async throws(PostgresError) -> Bool? {
        let hasChanged = try await execute(
            .suspendTenant, ["name": .text(name), "suspended": .bool(isSuspended)]
        ).one().optionalInt4("has_changed").map { $0 != 0 }
        if hasChanged == nil { try await refuseMoved(name) }
        return hasChanged
    }

    /// Changes settings of a tenant, all or none. Returns false if there is no such tenant. No other task may use this
    /// connection meanwhile. Throws if the tenant is in another database or is being moved to one.
    package func setTenant(_ name: String, to change: TenantChange) async throws -> Bool {
        let isChanged = try await transaction { try await apply(change, to: name) }
        if !isChanged { try await refuseMoved(name) }
        return isChanged
    }

    private func apply(_ change: TenantChange, to name: String) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "name": .text(name), "history_days": .int4(change.history?.stored),
            "feedback_days": .int4(change.feedback?.stored), "audit_days": .int4(change.audit?.stored),
            "key_days": .int4(change.keys?.stored), "weight": .float8(change.weight),
            "connections": .int4(change.connections.map { Int32(clamping: $0.number ?? 0) }),
        ]
        guard try await execute(.setTenant, parameters).count > 0 else { return false }
        switch change.rate {
        case nil: break
        case .limit(let rate, let burst)?:
            _ = try await execute(
                .setTenantRate, ["name": .text(name), "rate": .float8(rate), "burst": .float8(burst)])
        case .noLimit?: _ = try await execute(.liftTenantRate, ["name": .text(name)])
        }
        guard !change.quotas.isEmpty else { return true }
        return try await setQuotas(change.quotas, of: name)
    }
}
