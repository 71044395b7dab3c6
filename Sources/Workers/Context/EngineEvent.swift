package import FoundationEssentials
package import PostgresStore
import QueueCore

/// What an engine reports to the process that runs it. Each event is one log line.
package enum EngineEvent: Sendable, CustomStringConvertible {
    case started(name: String, version: String, database: String, queues: String)
    case noQueueMatches(pattern: String)
    /// One of several databases cannot be used yet.
    case storeUnavailable(database: String, reason: String)
    case storeLost(String)
    /// A connection is replaced because a statement was not answered in time.
    case storeSilent(String)
    /// Another attempt to connect has failed.
    case storeStillLost(String)
    case storeBack
    /// PostgreSQL is there, but has no session for fan-out or upkeep.
    case sessionMissing(String)
    case sessionsBack
    case storeRefused(String)
    /// A statement that was refused for another reason than its rows was carried out.
    case storeAccepts(String)
    /// PostgreSQL refuses the ends of all jobs, and no job is to blame.
    case endsRefused(String)
    case endsAccepted
    case oldPrimary(timeline: Int, newest: Int)
    case databaseRestored(queues: Int, backTo: Date)
    case sessionLacks(SessionLack)
    case queuePaused(queue: String, reason: String)
    /// The queue was paused, but not by this engine.
    case queueIsPaused(queue: String)
    case queueResumed(queue: String)
    case queueWithoutCredential(queue: String)
    case credentialUnreadable(queue: String, reason: String)
    case credentialExpires(name: String, warning: String, queues: Int)
    case clockInDoubt(keyID: String, minutes: Int)
    case gatewayUnreachable(queue: String, reason: String)
    /// Another attempt to connect has failed.
    case gatewayStillUnreachable(queue: String, reason: String)
    case gatewayReachable(queue: String)
    case outageBegun(queue: String, reason: String)
    case outageOver(queue: String)
    case pushesUncertain(queue: String, count: Int, reason: String)
    case streamsLeftOpen(queue: String, reason: String)
    case tokenMintedAnew(keyID: String)
    case deliveredTooSoon(queue: String, count: Int, grace: Duration)
    case drainTooShort(drain: Duration, grace: Duration)
    case leftInFlight(Int, drain: Duration)
    case jobsLeft(Int, pushes: Int)
    case jobsRescued(Int)
    case leasesLost(Int)
    case jobQuarantined(queue: String, job: Int64, reason: String)
    /// Leases in this worker's name that it does not hold were given back. After a failover, it may have served them,
    /// and the new primary does not know of their ends.
    case leasesFound(Int, afterFailover: Bool)
    case jobSetAside(queue: String, job: Int64, reason: String)
    /// Another transaction prevents the job's end from being written.
    case endHindered(queue: String, job: Int64)
    case campaignPausedItself(queue: String, key: String, reason: String)
    case scheduleRun(queue: String, schedule: String, campaign: String)
    case scheduleMissed(queue: String, schedule: String, runs: DueRun.LeftOut)
    case scheduleFailed(queue: String, schedule: String, time: String, reason: String)
    case devicesDeactivated(Int)
    case queuePausedForTokens(queue: String, reason: String)
    case feedbackRead(queue: String, count: Int)
    case feedbackActedOn(records: Int, deactivated: Int)
    case feedbackUnreachable(queue: String, reason: String)
    case webhookFailing(tenant: String, reason: String)
    case webhookBack(tenant: String)
    case partitionsChanged([String])
    case dutyFailed(name: String, reason: String)
    case draining
    case stopped(sent: Int)

    package var description: String {
        switch self {
        case .started(let name, let version, let database, let queues):
            "pushq \(version) started as \(name), on \(database), for queues \(queues)"
        case .noQueueMatches(let pattern):
            "no queue matches \(pattern): waiting for one; list queues with: pushq-admin queue list"
        case .storeUnavailable(let database, let reason):
            "\(database) cannot be used, trying again: \(reason)"
        case .storeSilent(let reason):
            "PostgreSQL has not answered, connecting anew: \(reason). If that succeeds at once, somebody may hold a lock; "
                + "see: pushq-admin doctor"
        case .storeLost(let reason), .storeStillLost(let reason):
            "PostgreSQL is out of reach, trying again: \(reason)"
        case .storeBack: "PostgreSQL is back"
        case .sessionMissing(let reason): "PostgreSQL has no session for fan-out or upkeep, trying again: \(reason)"
        case .sessionsBack: "PostgreSQL has sessions for fan-out and upkeep again"
        case .storeRefused(let reason): "PostgreSQL refused: \(reason)"
        case .storeAccepts(let statement): "PostgreSQL no longer refuses \(statement)"
        case .endsRefused(let reason):
            "PostgreSQL refuses to store the ends of jobs, trying again: \(reason). The worker keeps what it has sent, and "
                + "claims nothing until this is corrected"
        case .endsAccepted: "PostgreSQL accepts the ends of jobs again"
        case .oldPrimary(let timeline, let newest):
            "a writable server has timeline \(timeline), but another one already had \(newest): it is an old primary, and is "
                + "not used. Let nobody write to it, and see what was sent through it: pushq-admin restore diverged. If it is "
                + "meant to be the primary, restart the workers"
        case .databaseRestored(let queues, let backTo):
            "the database was restored and knows nothing after \(backTo.formatted(.iso8601)): "
                + "\(queues.counted("queue")) paused until an operator decides; see: pushq-admin restore show"
        case .sessionLacks(let lack):
            "the connection pooler does not let a worker set up its sessions, and role \(lack.role) lacks the settings "
                + "\(lack.settings.joined(separator: ", ")); work will be slower. Set them for the role with: "
                + "pushq-admin migrate --worker-role \(ShellWords.quoted(lack.role))"
        case .queuePaused(let queue, let reason): "\(queue) paused: \(reason)"
        case .queueIsPaused(let queue):
            "\(queue) is paused, or its tenant is suspended or moves to another database; see: "
                + "pushq-admin queue list; pushq-admin tenant show \(queue.prefix { $0 != "/" })"
        case .queueResumed(let queue): "\(queue) resumed"
        case .queueWithoutCredential(let queue):
            MissingCredential(queue: queue).description
        case .credentialUnreadable(let queue, let reason): "the credential of \(queue) cannot be used: \(reason)"
        case .credentialExpires(let name, let warning, let queues):
            "the certificate \(name) of \(queues.counted("queue")) \(warning); replace it with: "
                + "pushq-admin credential replace"
        case .clockInDoubt(let keyID, let minutes):
            "APNs says that the provider token of key \(keyID) has expired, although it is only \(minutes) "
                + "minutes old: correct the clock of PostgreSQL's server. A new token is minted when this one is 20 "
                + "minutes old, or at once if the clock is set back"
        case .gatewayUnreachable(let queue, let reason), .gatewayStillUnreachable(let queue, let reason):
            "APNs is out of reach for \(queue), trying again: \(reason)"
        case .gatewayReachable(let queue): "APNs can be reached again for \(queue)"
        case .outageBegun(let queue, let reason):
            "APNs currently answers \(reason) to pushes of \(queue): they wait without using attempts, and one push "
                + "at a time is tried"
        case .outageOver(let queue): "APNs takes pushes of \(queue) again"
        case .pushesUncertain(let queue, let count, let reason):
            "a connection of \(queue) was given up: \(reason); its \(count) pushes without an answer are sent again, "
                + Self.orUnknown
        case .streamsLeftOpen(let queue, let reason):
            "pushes of \(queue) are sent more slowly: \(reason). Apple's servers do not do this: look for a proxy before them"
        case .tokenMintedAnew(let keyID):
            "the provider token of key \(keyID) was sealed under another master key, so a new one was minted"
        case .deliveredTooSoon(let queue, let count, let grace):
            "\(count) pushes of \(queue) were recorded as delivered after \(grace) of silence, and a later error says that they were "
                + "not: start workers with a longer --binary-grace"
        case .drainTooShort(let drain, let grace):
            "a drain of \(drain) is too short for the binary interface, whose pushes count as delivered after \(grace) of silence: "
                + "pushes in flight when this worker stops will be sent again; start it with --drain "
                + "\(Int(((grace + EngineSettings.drainMargin) / .seconds(1)).rounded(.up)))s or more"
        case .leftInFlight(let count, let drain):
            "stopped waiting after \(drain): \(count) pushes had no answer yet, and are sent again, "
                + Self.orUnknown
        case .jobsLeft(let count, let pushes):
            "left \(count.counted("job")) whose end could not be written in time: other workers take "
                + "\(count == 1 ? "it" : "them") when the leases end, and "
                + (pushes == 0 ? "repeat nothing" : "may repeat up to \(pushes.counted("push", "pushes"))")
        case .jobsRescued(let count): "put back \(count.counted("job")) of workers that are gone"
        case .jobQuarantined(let queue, let job, let reason):
            "job \(job) of \(queue) was quarantined and is not sent: \(reason); see it with: pushq-admin job list --failed"
        case .jobSetAside(let queue, let job, let reason):
            "job \(job) of \(queue) is set aside, because PostgreSQL refuses to store its end: \(reason); when that is fixed, run: "
                + "pushq-admin job resume \(queue) \(job)"
        case .endHindered(let queue, let job):
            "job \(job) of \(queue) cannot be ended, because a transaction that stays open has locked what its result needs; "
                + "find its session with: pushq-admin doctor"
        case .campaignPausedItself(let queue, let key, let reason):
            "campaign \(key) of \(queue) has paused itself: \(reason); when that is fixed, run: "
                + "pushq-admin campaign resume \(queue) \(ShellWords.argument(key))"
        case .scheduleRun(let queue, let schedule, let campaign):
            "schedule \(schedule) of \(queue) started campaign \(campaign)"
        case .scheduleMissed(let queue, let schedule, let runs):
            "schedule \(schedule) of \(queue) missed "
                + (runs.runs == 1
                    ? "its run of \(runs.last): it could not be started in time"
                    : "\(runs.runs.counted("run")), from \(runs.first) to \(runs.last): they could not be started in time")
        case .scheduleFailed(let queue, let schedule, let time, let reason):
            "schedule \(schedule) of \(queue) could not start its run of \(time), and tries again after 1 to 15 minutes: \(reason)"
        case .leasesLost(let count): "lost \(count.counted("lease")) to other workers"
        case .leasesFound(let count, let afterFailover):
            "gave back \(count.counted("lease")) "
                + (afterFailover
                    ? "that may have been served before the database was replaced" : "whose claim had no answer")
        case .devicesDeactivated(let count): "deactivated \(count.counted("device")) whose token is bad"
        case .queuePausedForTokens(let queue, let reason):
            "\(queue) paused: \(reason). Correct its tokens, then run: pushq-admin queue resume \(queue)"
        case .feedbackRead(let queue, let count): "the feedback service listed \(count.counted("record")) for \(queue)"
        case .feedbackActedOn(let records, let deactivated):
            "deactivated \(deactivated.counted("device")) after \(records.counted("report")) of APNs"
        case .feedbackUnreachable(let queue, let reason):
            "the list of the feedback service for \(queue) cannot be read to its end, trying again: \(reason)"
        case .webhookFailing(let tenant, let reason):
            "the webhook of \(tenant) does not accept reports, trying again: \(reason); test it with: pushq-admin webhook test \(tenant)"
        case .webhookBack(let tenant): "the webhook of \(tenant) accepts reports again"
        case .partitionsChanged(let statements): "history: \(statements.joined(separator: "; "))"
        case .dutyFailed(let name, let reason): "the duty \(name) failed and is tried again: \(reason)"
        case .draining: "draining: waiting for what is in flight"
        case .stopped(let sent): "stopped after \(sent.counted("request"))"
        }
    }

    /// What becomes of pushes without an answer that are not sent again.
    private static let orUnknown =
        "or are unknown if they may be sent at most once or were lost \(EngineSettings.maximumLosses) times"
}
