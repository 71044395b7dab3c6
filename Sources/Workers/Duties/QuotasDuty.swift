import PostgresStore

/// Counts how much of their quotas tenants use. Producers' calls are checked against these counts.
final class QuotasDuty: Duty {
    let name = "quotas"
    /// The pause. It grows with the time that counting takes, so that counting takes at most a tenth of the time.
    private(set) var pause = QuotasDuty.usualPause
    /// A tenant that gets quotas must not wait because the count of others, which are gone, took long.
    let idlePause = QuotasDuty.usualPause
    let longestPause = Duration.seconds(3600)

    private static let usualPause = Duration.seconds(5)

    private let store: RetryingConnection

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        let begun = ContinuousClock.now
        // A tenant that cannot be counted keeps no other from being counted.
        var problems = Problems()
        for tenantID in try await store.connection().tenantsToCount() {
            guard try await lease.mayContinue() else { break }
            await problems.note { () async throws(PostgresError) in
                try await store.connection().countUsage(of: tenantID)
            }
        }
        pause = min(max(Self.usualPause, (ContinuousClock.now - begun) * 10), longestPause)
        try problems.throwFirst()
    }
}
