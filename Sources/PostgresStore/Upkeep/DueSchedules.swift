extension Statement {
    static let runDueSchedule = Statement(
        "run_due_schedule",
        #"""
        select event, queue, schedule, shown_at, campaign, problem, left_out, first_left, last_left
        from pushq.run_due_schedule()
        """#)
}

/// A run of a schedule that was due, and its result.
package struct DueRun: Equatable, Sendable {
    /// The result of a run.
    package enum Event: Equatable, Sendable {
        /// The campaign with this key was started.
        case started(campaign: String)
        /// The run was due more than an hour ago, and its schedule does not start such late runs.
        case missed
        /// The run is due later, by time zone data that the server has got since the run's time was stored.
        case moved
        /// The run could not be started, and is tried again in a minute or later.
        case failed(problem: String)
        /// The run failed again, with the same problem.
        case failedAgain
    }

    /// Runs that will not be started any more.
    package struct LeftOut: Equatable, Sendable {
        package let runs: Int
        /// The times of the first and the last run, as messages show them.
        package let first: String
        package let last: String

        package init(runs: Int, first: String, last: String) {
            self.runs = runs
            self.first = first
            self.last = last
        }
    }

    package let queue: String
    package let schedule: String
    /// The time of the run, as messages show it.
    package let time: String
    package let event: Event
    /// The runs left out before this one, or up to this one if it was missed itself.
    package let leftOut: LeftOut?
}

extension PostgresConnection {
    /// Starts a due run of one schedule. Nil if nothing is due, other workers are running all that is, or upkeep has
    /// not made the day's partitions yet.
    package func runDueSchedule() async throws(PostgresError) -> DueRun? {
        try await execute(.runDueSchedule).first.map { row in
            let event: DueRun.Event =
                switch row.text("event") {
                case "started": .started(campaign: row.text("campaign"))
                case "missed": .missed
                case "moved": .moved
                case "failed": .failed(problem: row.text("problem"))
                default: .failedAgain
                }
            return DueRun(
                queue: row.text("queue"), schedule: row.text("schedule"), time: row.text("shown_at"), event: event,
                leftOut: row.optionalInt8("left_out").map {
                    DueRun.LeftOut(runs: Int($0), first: row.text("first_left"), last: row.text("last_left"))
                })
        }
    }
}
