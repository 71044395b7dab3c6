import PostgresStore

/// Makes the partitions of history ahead, drops those past retention, and forgets what only they named.
struct UpkeepDuty: Duty {
    let name = "upkeep"
    let pause = Duration.seconds(3600)
    let lease = Duration.seconds(300)

    let store: EngineStore
    let report: (EngineEvent) -> Void

    func run() async throws(PostgresError) {
        let changed: Result<[String], PostgresError>
        do throws(PostgresError) {
            changed = .success(try await store.connection().maintainPartitions())
        } catch {
            changed = .failure(error)
        }
        // A day that cannot be dropped at this moment keeps nothing else from being forgotten.
        try await store.connection().forget()
        let statements = try changed.get()
        if !statements.isEmpty { report(.partitionsChanged(statements)) }
    }
}
