package import PostgresStore
import QueueCore
package import Terminal

/// The columns of schedules on the page.
package enum ScheduleColumns {
    package static var all: [Column<ScheduleSummary>] {
        [
            Column("name") { .text($0.name) },
            Column("cron") { .text($0.draft.cron) },
            Column("time_zone") { .text($0.draft.timeZone) },
            Column("state") { .text($0.state.rawValue) },
            Column("next_run") { .time($0.isPaused ? nil : $0.nextRuns.first) },
            Column("last_run") { .time($0.lastRun?.time) },
            Column("campaign") { .text($0.lastRun?.campaign) },
            Column("problems") { .text($0.problems.joined(separator: "; ")) },
        ]
    }
}
