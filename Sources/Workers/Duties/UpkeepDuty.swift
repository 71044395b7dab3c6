import PostgresStore

/// Makes the partitions of history ahead and drops those past retention.
struct UpkeepDuty: Duty {
    let name = "upkeep"
    let pause = Duration.seconds(3600)
    let lease = Duration.seconds(300)

    let store: EngineStore
    let report: (EngineEvent) -> Void

    func run() async throws(PostgresError) {
        let changed = try await store.connection().maintainPartitions()
        if !changed.isEmpty { report(.partitionsChanged(changed)) }
    }
}
