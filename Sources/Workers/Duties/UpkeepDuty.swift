import PostgresStore

/// Creates the partitions of history ahead of time, drops those past retention, and deletes what only they referred to.
///
/// If today has no partition, no worker has run for days, or the database's clock has jumped ahead. Then this run only
/// creates partitions, and the next one deletes: by then, such a clock may be right again.
struct UpkeepDuty: Duty {
    let name = "upkeep"
    let pause = Duration.seconds(3600)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        guard try await store.connection().hasToday() else {
            return report(.partitionsChanged(try await store.connection().makePartitions()))
        }
        let changed: Result<[String], PostgresError>
        do throws(PostgresError) {
            changed = .success(try await store.connection().maintainPartitions(while: lease.mayContinue))
        } catch {
            changed = .failure(error)
        }
        // If a day cannot be dropped at this moment, everything else is still deleted.
        try await PostgresConnection.forget(while: lease.mayContinue) { () async throws(PostgresError) in
            try await store.connection()
        }
        let statements = try changed.get()
        if !statements.isEmpty { report(.partitionsChanged(statements)) }
    }
}
