import PostgresStore

/// Makes the partitions of history ahead, drops those past retention, and forgets what only they named.
struct UpkeepDuty: Duty {
    let name = "upkeep"
    let pause = Duration.seconds(3600)
    let lease = Duration.seconds(300)

    let store: EngineStore
    let report: (EngineEvent) -> Void

    func run() async throws(PostgresError) {
        let changed = try await store.connection().maintainPartitions()
        if !changed.isEmpty { report(.partitionsChanged(changed)) }
        try await store.connection().forget()
    }
}
