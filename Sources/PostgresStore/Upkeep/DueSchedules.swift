extension Statement {
    static let runDueSchedule = Statement(
        "run_due_schedule", "select event, queue, schedule, shown_at, campaign, problem from pushq.run_due_schedule()")
}

/// A run of a schedule that was due, and what became of it.
package struct DueRun: Equatable, Sendable {
    /// What became of a run.
    package enum Event: Equatable, Sendable {
        /// The campaign with this key was started.
        case started(campaign: String)
        /// It was due more than an hour ago, and its schedule does not want it any more.
        case missed
        /// It could not be started, and is tried again in a minute or later.
        case failed(problem: String)
        /// As before, with the same problem.
        case failedAgain
    }

    package let queue: String
    package let schedule: String
    /// The time of the run, as sentences have it.
    package let time: String
    package let event: Event
}

extension PostgresConnection {
    /// Starts what is due of one schedule. Nil if nothing is due that nobody else is at.
    package func runDueSchedule() async throws(PostgresError) -> DueRun? {
        try await execute(.runDueSchedule).first.map { row in
            let event: DueRun.Event =
                switch row.text("event") {
                case "started": .started(campaign: row.text("campaign"))
                case "missed": .missed
                case "failed": .failed(problem: row.text("problem"))
                default: .failedAgain
                }
            return DueRun(
                queue: row.text("queue"), schedule: row.text("schedule"), time: row.text("shown_at"), event: event)
        }
    }
}
