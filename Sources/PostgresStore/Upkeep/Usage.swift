extension Statement {
    static let tenantsToCount = Statement(
        "tenants_to_count", "select tenant_id from pushq.tenants_to_count() as t(tenant_id)")
    static let countUsage = Statement("count_usage", "select pushq.count_usage($tenant_id, $anew)::text")
}

extension PostgresConnection {
    /// Counts the usage of each tenant that has quotas.
    /// - Parameter goesOn: asked before each tenant; if false, the rest is left to the next round.
    package func countUsage(
        while goesOn: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) {
        for tenantID in try await execute(.tenantsToCount).map({ $0.int4("tenant_id") }) {
            guard try await goesOn() else { return }
            _ = try await execute(.countUsage, ["tenant_id": .int4(tenantID), "anew": .bool(false)])
        }
    }
}
