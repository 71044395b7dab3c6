import PostgresStore

/// Creates the partitions of history ahead of time, drops those past retention, and deletes what only they referred to.
struct UpkeepDuty: Duty {
    let name = "upkeep"
    let pause = Duration.seconds(3600)

    private let store: EngineStore
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.stores.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        let changed: Result<[String], PostgresError>
        do throws(PostgresError) {
            changed = .success(try await store.connection().maintainPartitions(while: lease.mayGoOn))
        } catch {
            changed = .failure(error)
        }
        // A day that cannot be dropped at this moment keeps nothing else from being forgotten.
        try await store.connection().forget(while: lease.mayGoOn)
        let statements = try changed.get()
        if !statements.isEmpty { report(.partitionsChanged(statements)) }
    }
}
