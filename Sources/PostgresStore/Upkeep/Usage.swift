extension Statement {
    static let tenantsToCount = Statement(
        "tenants_to_count", "select tenant_id from pushq.tenants_to_count() as t(tenant_id)")
    static let countUsage = Statement("count_usage", "select pushq.count_usage($tenant_id, $anew)::text")
}

extension PostgresConnection {
    /// Returns the tenants that have quotas, by their ids.
    package func tenantsToCount() async throws(PostgresError) -> [Int32] {
        try await execute(.tenantsToCount).map { $0.int4("tenant_id") }
    }

    /// Counts the usage of a tenant.
    package func countUsage(of tenantID: Int32) async throws(PostgresError) {
        _ = try await execute(.countUsage, ["tenant_id": .int4(tenantID), "anew": .bool(false)])
    }
}
