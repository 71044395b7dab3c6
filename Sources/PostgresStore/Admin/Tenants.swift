package import FoundationEssentials

extension Statement {
    static let createTenant = Statement(
        "create_tenant",
        "insert into pushq.tenant (name) values ($1) on conflict on constraint tenant_name_once do nothing returning id"
    )

    static let tenants = Statement(
        "tenants",
        #"""
        select t.name,
               (select count(*) from pushq.app a where a.tenant_id = t.id),
               (select count(*) from pushq.queue q where q.tenant_id = t.id),
               (select count(*) from pushq.credential c where c.tenant_id = t.id),
               t.suspended_at is not null,
               t.created_at
        from pushq.tenant t
        order by t.name
        """#)

    /// $1 name; $2 whether it is suspended from now on.
    static let suspendTenant = Statement(
        "suspend_tenant",
        #"""
        update pushq.tenant set suspended_at = case when $2::boolean then coalesce(suspended_at, now()) end
        where name = $1
        returning pushq.tell('tenant', id)::text, pushq.wake()::text
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
}

extension PostgresConnection {
    /// Makes a tenant. False if there is one of that name.
    package func createTenant(_ name: String) async throws(PostgresError) -> Bool {
        try await execute(.createTenant, [.text(name)]).count > 0
    }

    /// All tenants, by name.
    package func tenants() async throws(PostgresError) -> [TenantSummary] {
        try await execute(.tenants, []).map { row in
            TenantSummary(
                name: row.text(0), appCount: Int(row.int8(1)), queueCount: Int(row.int8(2)),
                credentialCount: Int(row.int8(3)), isSuspended: row.bool(4), createdAt: row.time(5))
        }
    }

    /// Suspends a tenant, of which nothing is sent then, or lets it go on. False if there is none of that name.
    package func setTenant(_ name: String, isSuspended: Bool) async throws(PostgresError) -> Bool {
        try await execute(.suspendTenant, [.text(name), .bool(isSuspended)]).count > 0
    }
}
