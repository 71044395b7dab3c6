package import PostgresStore
import QueueCore
package import Terminal

/// The columns of campaigns in commands and on the page.
package enum CampaignColumns {
    package static var all: [Column<CampaignSummary>] {
        [
            Column("queue") { .text("\($0.queue)") },
            Column("key") { .text($0.key) },
            Column("state") { .text($0.state) },
            Column("total") { .count($0.total) },
            Column("waiting") { .count($0.waiting) },
        ] + OutcomeColumns.all { $0.tally } + [Column("started_at") { .time($0.createdAt) }]
    }

    /// The outcomes by the time at which they were recorded.
    package static var timeline: [Column<OutcomeTimeline.Interval>] {
        [Column("at") { .time($0.start) }] + OutcomeColumns.outcomes { $0.tally }
    }

    /// Why recipients did not get the push.
    package static var reasons: [Column<OutcomeTimeline.Cause>] {
        [
            Column("reason") { .text($0.reason) },
            Column("count") { .count($0.count) },
        ]
    }
}

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

/// The columns of devices. They contain only the beginnings of tokens.
package enum DeviceColumns {
    package static var all: [Column<Device>] {
        [
            Column("device") { .text("\($0.id)") },
            Column("token") { .text($0.token.redacted) },
            Column("user_key") { .text($0.userKey) },
            Column("kind") { .text($0.kind ?? "alert") },
            Column("active") { .yes($0.isActive) },
            Column("registered_at") { .time($0.registeredAt) },
            Column("inactive_since") { .time($0.inactiveSince) },
            Column("reason") { .text($0.inactiveReason?.text) },
        ]
    }
}

/// The columns of credentials, without secrets.
package enum CredentialColumns {
    package static var all: [Column<CredentialSummary>] {
        [
            Column("tenant") { .text($0.tenant) },
            Column("name") { .text($0.name) },
            Column("kind") { .text($0.kind) },
            Column("version") { .count($0.version) },
            Column("key_id") { .text($0.keyID) },
            Column("team_id") { .text($0.teamID) },
            Column("topics") { .text($0.topics.isEmpty ? nil : $0.topics) },
            Column("environments") { .text($0.environments) },
            Column("expires_at") { .time($0.notAfter) },
            Column("warning") { .text($0.expiry?.warning) },
            Column("queues") { .count($0.queueCount) },
        ]
    }
}

/// The columns of the audit: who changed what, and when.
package enum AuditColumns {
    package static var all: [Column<AuditEntry>] {
        [
            Column("changed_at") { .time($0.changedAt) },
            Column("login") { entry in .text(entry.login + (entry.actingAs.map { " as \($0)" } ?? "")) },
            Column("application") { .text($0.application) },
            Column("address") { .text($0.address) },
            Column("tenant") { .text($0.tenant) },
            Column("object") { .text($0.object) },
            Column("name") { .text($0.name) },
            Column("action") { .text($0.action) },
            Column("changes") { .text($0.changes) },
        ]
    }
}
