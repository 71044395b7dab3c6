import PostgresStore

/// Lists what was done to devices because of APNs' reports, for producers to read.
///
/// It runs apart from the other duties, since producers wait for it, and upkeep may take minutes.
struct ListingDuty: Duty {
    let name = "listing"
    let pause = Duration.seconds(1)

    private let store: RetryingConnection

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        repeat {
            guard try await store.connection().listFeedback() > 0 else { return }
        } while try await lease.mayContinue()
    }
}
