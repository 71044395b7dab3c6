import PostgresStore

/// Starts the campaigns of schedules that are due.
///
/// It runs apart from the other duties, since a campaign is to start within seconds, and upkeep may take minutes.
struct SchedulesDuty: Duty {
    let name = "schedules"
    let pause = Duration.seconds(1)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        while try await lease.mayContinue(), let run = try await store.connection().runDueSchedule() {
            if let leftOut = run.leftOut {
                report(.scheduleMissed(queue: run.queue, schedule: run.schedule, runs: leftOut))
            }
            switch run.event {
            case .started(let campaign):
                report(.scheduleRun(queue: run.queue, schedule: run.schedule, campaign: campaign))
            case .failed(let problem):
                report(.scheduleFailed(queue: run.queue, schedule: run.schedule, time: run.time, reason: problem))
            // These were reported already: above, and when the run first failed.
            case .missed, .failedAgain: break
            // It is reported when it is started.
            case .moved: break
            }
        }
    }
}
