package import PostgresStore
import QueueCore
package import Terminal

/// The columns of traces: the history of notifications, step by step.
package enum TraceColumns {
    package static var all: [Column<TraceStep>] {
        [
            Column("device") { .text($0.deviceID.map { "\($0)" }) },
            Column("token") { .text($0.tokenStart) },
            Column("of") { .text($0.campaignKey ?? $0.rootID.map { "\($0)" }) },
            Column("at") { .time($0.at) },
            Column("what") { .text($0.what) },
            Column("status") { .text($0.status.map { "\($0)" }) },
            Column("attempt") { .text($0.attempt.map { "\($0)" }) },
            Column("worker") { .text($0.worker) },
            Column("job") { .text($0.jobID.map { "\($0)" }) },
            Column("apns_id") { .text($0.apnsID) },
            Column("traceparent", isForProgramsOnly: true) { .text($0.traceparent) },
        ]
    }
}
