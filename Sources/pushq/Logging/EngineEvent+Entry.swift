import FoundationEssentials
import PostgresStore
import Terminal
import Workers

/// The log entries of a worker's events. `docs/logs.md` lists them; a test compares the two.
extension EngineEvent {
    /// The severity of the event.
    var level: LogLevel {
        switch self {
        case .storeUnavailable, .storeLost, .storeSilent, .storeStillLost, .sessionMissing, .storeRefused, .endsRefused,
            .oldPrimary,
            .databaseRestored,
            .queuePaused, .queueWithoutCredential,
            .credentialUnreadable, .gatewayUnreachable, .gatewayStillUnreachable, .outageBegun, .jobQuarantined,
            .jobSetAside,
            .campaignPausedItself, .queuePausedForTokens, .scheduleFailed,
            .dutyFailed, .clockInDoubt:
            .error
        case .noQueueMatches, .sessionLacks, .credentialExpires, .pushesUncertain, .streamsLeftOpen, .tokenMintedAnew,
            .deliveredTooSoon, .drainTooShort, .leftInFlight, .jobsLeft, .jobsRescued, .leasesLost,
            .feedbackUnreachable,
            .webhookFailing,
            .scheduleMissed, .endHindered:
            .warning
        case .started, .storeBack, .sessionsBack, .storeAccepts, .endsAccepted, .webhookBack, .queueIsPaused,
            .queueResumed,
            .gatewayReachable,
            .outageOver,
            .leasesFound,
            .devicesDeactivated, .draining, .stopped:
            .notice
        case .feedbackRead, .feedbackActedOn, .partitionsChanged, .scheduleRun: .info
        }
    }

    /// The log entry of the event.
    /// - Parameter database: the database that it concerns, if the process serves several.
    func entry(of database: String?) -> LogEntry {
        let (event, details) = facts
        guard let database, !details.contains(where: { $0.key == "database" }) else {
            return LogEntry(level, event, description, details, cause: cause, opposites: opposites, isLast: isLast)
        }
        return LogEntry(
            level, event, "\(database): \(description)", [("database", .string(database))] + details,
            cause: cause.map { "\(database): \($0)" }, opposites: opposites, isLast: isLast)
    }

    /// Whether it says that the worker has ended.
    private var isLast: Bool {
        if case .stopped = self { true } else { false }
    }

    /// The event's name, which never changes, and its values. A key means the same in every event.
    private var facts: (event: String, details: [(key: String, value: JSON)]) {
        switch self {
        case .started(let name, let version, let database, let queues):
            (
                "started",
                [
                    ("worker", .string(name)), ("version", .string(version)), ("database", .string(database)),
                    ("queues", .string(queues)),
                ]
            )
        case .noQueueMatches(let pattern): ("no_queue_matches", [("queues", .string(pattern))])
        case .storeUnavailable(let database, let reason):
            ("store_unavailable", [("database", .string(database)), ("reason", .string(reason))])
        case .storeLost(let reason): ("store_lost", [("reason", .string(reason))])
        case .storeSilent(let reason): ("store_silent", [("reason", .string(reason))])
        // Readers get the same event: a further failed attempt is nothing new.
        case .storeStillLost(let reason): ("store_lost", [("reason", .string(reason))])
        case .storeBack: ("store_back", [])
        case .sessionMissing(let reason): ("session_missing", [("reason", .string(reason))])
        case .sessionsBack: ("sessions_back", [])
        case .storeRefused(let reason): ("store_refused", [("reason", .string(reason))])
        case .storeAccepts(let statement): ("store_accepts", [("statement", .string(statement))])
        case .endsRefused(let reason): ("ends_refused", [("reason", .string(reason))])
        case .endsAccepted: ("ends_accepted", [])
        case .oldPrimary(let timeline, let newest):
            ("old_primary", [("timeline", .integer(timeline)), ("newest", .integer(newest))])
        case .databaseRestored(let queues, let backTo):
            (
                "database_restored",
                [("queues", .integer(queues)), ("back_to", .string(backTo.formatted(.iso8601)))]
            )
        case .sessionLacks(let lack):
            ("session_lacks", [("role", .string(lack.role)), ("settings", .array(lack.settings.map(JSON.string)))])
        case .queuePaused(let queue, let reason): ("queue_paused", on(queue, reason))
        case .queueIsPaused(let queue): ("queue_is_paused", on(queue))
        case .queueResumed(let queue): ("queue_resumed", on(queue))
        case .queueWithoutCredential(let queue): ("queue_without_credential", on(queue))
        case .credentialUnreadable(let queue, let reason): ("credential_unreadable", on(queue, reason))
        case .credentialExpires(let name, let warning, let queues):
            (
                "credential_expires",
                [("credential", .string(name)), ("reason", .string(warning)), ("count", .integer(queues))]
            )
        case .clockInDoubt(let keyID, let minutes):
            ("clock_in_doubt", [("key_id", .string(keyID)), ("minutes", .integer(minutes))])
        case .gatewayUnreachable(let queue, let reason): ("gateway_unreachable", on(queue, reason))
        case .gatewayStillUnreachable(let queue, let reason): ("gateway_unreachable", on(queue, reason))
        case .gatewayReachable(let queue): ("gateway_reachable", on(queue))
        case .outageBegun(let queue, let reason): ("outage_begun", on(queue, reason))
        case .outageOver(let queue): ("outage_over", on(queue))
        case .pushesUncertain(let queue, let count, let reason):
            ("pushes_uncertain", on(queue, reason) + [("count", .integer(count))])
        case .streamsLeftOpen(let queue, let reason): ("streams_left_open", on(queue, reason))
        case .tokenMintedAnew(let keyID): ("token_minted_anew", [("key_id", .string(keyID))])
        case .deliveredTooSoon(let queue, let count, _):
            ("delivered_too_soon", on(queue) + [("count", .integer(count))])
        case .drainTooShort: ("drain_too_short", [])
        case .leftInFlight(let count, _): ("left_in_flight", [("count", .integer(count))])
        case .jobsLeft(let count, let pushes):
            ("jobs_left", [("count", .integer(count)), ("pushes", .integer(pushes))])
        case .jobsRescued(let count): ("jobs_rescued", [("count", .integer(count))])
        case .leasesLost(let count): ("leases_lost", [("count", .integer(count))])
        case .jobQuarantined(let queue, let job, let reason):
            ("job_quarantined", on(queue, reason) + [("job", .integer(Int(job)))])
        case .leasesFound(let count, _): ("leases_found", [("count", .integer(count))])
        case .jobSetAside(let queue, let job, let reason):
            ("job_set_aside", on(queue, reason) + [("job", .integer(Int(job)))])
        case .endHindered(let queue, let job): ("end_hindered", on(queue) + [("job", .integer(Int(job)))])
        case .campaignPausedItself(let queue, let key, let reason):
            ("campaign_stopped", on(queue, reason) + [("campaign", .string(key))])
        case .scheduleRun(let queue, let schedule, let campaign):
            ("schedule_run", on(queue) + [("schedule", .string(schedule)), ("campaign", .string(campaign))])
        case .scheduleMissed(let queue, let schedule, let runs):
            (
                "schedule_missed",
                on(queue) + [
                    ("schedule", .string(schedule)), ("run_at", .string(runs.last)), ("since", .string(runs.first)),
                    ("runs", .integer(runs.runs)),
                ]
            )
        case .scheduleFailed(let queue, let schedule, let time, let reason):
            ("schedule_failed", on(queue, reason) + [("schedule", .string(schedule)), ("run_at", .string(time))])
        case .devicesDeactivated(let count): ("devices_deactivated", [("count", .integer(count))])
        case .queuePausedForTokens(let queue, let reason): ("queue_paused_for_tokens", on(queue, reason))
        case .feedbackRead(let queue, let count): ("feedback_read", on(queue) + [("count", .integer(count))])
        case .feedbackActedOn(let records, let deactivated):
            ("feedback_acted_on", [("count", .integer(records)), ("deactivated", .integer(deactivated))])
        case .feedbackUnreachable(let queue, let reason): ("feedback_unreachable", on(queue, reason))
        case .webhookFailing(let tenant, let reason):
            ("webhook_failing", [("tenant", .string(tenant)), ("reason", .string(reason))])
        case .webhookBack(let tenant): ("webhook_back", [("tenant", .string(tenant))])
        case .partitionsChanged(let statements):
            ("partitions_changed", [("statements", .array(statements.map(JSON.string)))])
        case .dutyFailed(let name, let reason):
            ("duty_failed", [("duty", .string(name)), ("reason", .string(reason))])
        case .draining: ("draining", [])
        case .stopped(let sent): ("stopped", [("count", .integer(sent))])
        }
    }

    private func on(_ queue: String, _ reason: String? = nil) -> [(key: String, value: JSON)] {
        [("queue", .string(queue))] + (reason.map { [("reason", .string($0))] } ?? [])
    }

    /// The common cause, if many queues, jobs or engines report the event at once.
    private var cause: String? {
        switch self {
        case .storeLost(let reason), .storeSilent(let reason), .storeStillLost(let reason), .storeRefused(let reason),
            .endsRefused(let reason),
            .sessionMissing(let reason),
            .queuePaused(_, let reason),
            .gatewayStillUnreachable(_, let reason),
            .credentialUnreadable(_, let reason), .gatewayUnreachable(_, let reason), .outageBegun(_, let reason),
            .pushesUncertain(_, _, let reason), .streamsLeftOpen(_, let reason), .jobQuarantined(_, _, let reason),
            .jobSetAside(_, _, let reason),
            .feedbackUnreachable(_, let reason), .webhookFailing(_, let reason), .scheduleFailed(_, _, _, let reason):
            reason
        case .dutyFailed(let name, let reason): "\(name): \(reason)"
        // Of several statements that were refused, each is said to be accepted again.
        case .storeAccepts(let statement): statement
        case .storeUnavailable(let database, let reason): "\(database): \(reason)"
        case .storeBack, .sessionsBack, .endsAccepted, .queueIsPaused, .queueResumed,
            .queueWithoutCredential,
            .gatewayReachable,
            .outageOver,
            .deliveredTooSoon, .jobsRescued, .leasesLost, .leasesFound, .drainTooShort, .feedbackRead, .oldPrimary,
            .databaseRestored,
            .scheduleRun, .scheduleMissed, .webhookBack, .endHindered:
            ""
        case .clockInDoubt(let keyID, _), .tokenMintedAnew(let keyID): keyID
        case .started, .noQueueMatches, .sessionLacks, .credentialExpires, .leftInFlight, .jobsLeft,
            .campaignPausedItself,
            .devicesDeactivated, .queuePausedForTokens, .feedbackActedOn, .partitionsChanged, .draining, .stopped:
            nil
        }
    }

    /// The events that this event ends, or that end it.
    private var opposites: [String] {
        switch self {
        case .storeLost, .storeSilent, .storeStillLost: ["store_back"]
        case .storeBack: ["store_lost", "store_silent"]
        case .sessionMissing: ["sessions_back"]
        case .sessionsBack: ["session_missing"]
        case .storeRefused: ["store_accepts"]
        case .storeAccepts: ["store_refused"]
        case .endsRefused: ["ends_accepted"]
        case .endsAccepted: ["ends_refused"]
        case .gatewayUnreachable, .gatewayStillUnreachable: ["gateway_reachable"]
        case .gatewayReachable: ["gateway_unreachable"]
        case .outageBegun: ["outage_over"]
        case .outageOver: ["outage_begun"]
        case .queuePaused, .queueIsPaused, .queuePausedForTokens: ["queue_resumed"]
        case .queueResumed: ["queue_paused", "queue_is_paused"]
        default: []
        }
    }
}
