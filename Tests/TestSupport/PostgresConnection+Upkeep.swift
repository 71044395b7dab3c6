package import PostgresStore

extension PostgresConnection {
    /// Counts the usage of each tenant that has quotas, as the duty does.
    package func countUsage() async throws(PostgresError) {
        for tenantID in try await tenantsToCount() { try await countUsage(of: tenantID) }
    }

    /// Deletes what is past retention, as the duty does.
    package func forget(
        _ retention: Retention = Retention(), while mayContinue: () async throws(PostgresError) -> Bool = { true }
    ) async throws(PostgresError) {
        try await PostgresConnection.forget(retention, while: mayContinue) { () async throws(PostgresError) in self }
    }
}
