import PostgresStore

/// Judges the devices whose tokens APNs called bad: deactivates them, or pauses the queue if they are too many.
struct SuspectsDuty: Duty {
    let name = "suspects"
    let pause = Duration.seconds(5)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        while true {
            let verdict = try await store.connection().judgeSuspects()
            if verdict.deactivated > 0 { report(.devicesDeactivated(verdict.deactivated)) }
            for queue in verdict.paused { report(.queuePausedForTokens(queue: queue.name, reason: queue.problem)) }
            guard verdict.hasMore, try await lease.mayContinue() else { return }
        }
    }
}
