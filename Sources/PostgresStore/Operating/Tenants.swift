package import FoundationEssentials

extension Statement {
    static let createTenant = Statement(
        "create_tenant",
        "insert into pushq.tenant (name) values ($name) on conflict on constraint tenant_name_once do nothing returning id"
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
               t.history_days, t.feedback_days
        from pushq.tenant t
        order by t.name
        """#)

    static let suspendTenant = Statement(
        "suspend_tenant",
        #"""
        update pushq.tenant set suspended_at = case when $suspended::boolean then coalesce(suspended_at, now()) end
        where name = $name
        returning pushq.tell('tenant', id)::text, pushq.wake()::text
        """#)

    /// Days; null for what stays, 0 for what is usual.
    static let setTenantRetention = Statement(
        "set_tenant_retention",
        #"""
        update pushq.tenant
        set history_days = case when $history_days::int is null then history_days else nullif($history_days, 0) end,
            feedback_days = case when $feedback_days::int is null then feedback_days else nullif($feedback_days, 0) end
        where name = $name
        returning id
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
    /// Days that its results, recipients and messages are kept, and its feedback; nil: as long as is usual.
    package let historyDays: Int?
    package let feedbackDays: Int?
}

/// For how long something of a tenant is kept.
package enum RetentionDays: Equatable, Sendable {
    /// As long as workers keep everything: ``Retention``.
    case usual
    /// So many days after the one in which it was written: 1 to 3650.
    case days(Int)

    fileprivate var stored: Int32 {
        switch self {
        case .usual: 0
        case .days(let count): Int32(clamping: count)
        }
    }
}

extension PostgresConnection {
    /// Makes a tenant. False if there is one of that name.
    package func createTenant(_ name: String) async throws(PostgresError) -> Bool {
        try await execute(.createTenant, ["name": .text(name)]).count > 0
    }

    /// All tenants, by name.
    package func tenants() async throws(PostgresError) -> [TenantSummary] {
        try await execute(.tenants).map { row in
            TenantSummary(
                name: row.text("name"), appCount: row.count("apps"), queueCount: row.count("queues"),
                credentialCount: row.count("credentials"), isSuspended: row.bool("is_suspended"),
                createdAt: row.time("created_at"),
                historyDays: row.optionalInt4("history_days").map(Int.init),
                feedbackDays: row.optionalInt4("feedback_days").map(Int.init))
        }
    }

    /// Suspends a tenant, of which nothing is sent then, or lets it go on. False if there is none of that name.
    package func setTenant(_ name: String, isSuspended: Bool) async throws(PostgresError) -> Bool {
        try await execute(.suspendTenant, ["name": .text(name), "suspended": .bool(isSuspended)]).count > 0
    }

    /// Sets for how long a tenant's history and feedback are kept; nil leaves a setting as it is. False if there is no such tenant.
    package func setRetention(
        ofTenant name: String, history: RetentionDays?, feedback: RetentionDays?
    ) async throws(PostgresError) -> Bool {
        try await execute(
            .setTenantRetention,
            ["name": .text(name), "history_days": .int4(history?.stored), "feedback_days": .int4(feedback?.stored)]
        ).count > 0
    }
}
