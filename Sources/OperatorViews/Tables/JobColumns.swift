package import PostgresStore
import QueueCore
package import Terminal

/// The columns of jobs with failed recipients.
package enum JobColumns {
    package static var failed: [Column<FailedJob>] {
        [
            Column("queue") { .text("\($0.queue)") },
            Column("job") { .text("\($0.id)") },
            Column("campaign") { .text($0.campaignKey) },
            Column("attempt") { .count($0.attempt) },
            Column("ended_at") { .time($0.endedAt) },
            Column("failed") { .count($0.failedCount) },
            Column("reasons") { job in
                .text(job.reasons.map { "\($0.reason.text) \(NumberText.grouped($0.count))" }.joined(separator: ", "))
            },
            Column("root") { .text("\($0.rootID)") },
        ]
    }
}
