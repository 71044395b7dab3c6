package import APNs
package import PostgresStore
import QueueCore

/// How a worker works. Every bound of the engine is here.
package struct EngineSettings: Sendable {
    /// Which queues it serves, as a pattern of `tenant/app/environment` in which `*` stands for anything.
    package var queues = "*"
    /// Sends everything there instead of to Apple.
    package var gateway: Endpoint?
    /// Sends broadcasts there instead of where pushes to devices go. Apple's pages disagree on their host: that on connections
    /// names the one for devices, some of its samples `api-broadcast.push.apple.com`.
    package var broadcastGateway: Endpoint?
    /// The same for queues that are sent over the binary interface, and for its feedback service. Without them, a worker that
    /// sends elsewhere than to Apple does not turn to Apple for these.
    package var binaryGateway: Endpoint?
    package var feedbackService: Endpoint?
    package var binary = BinarySettings()
    /// Limits and times of the connections to APNs; how many there are is each queue's setting.
    package var connections = GatewaySettings()
    /// Connections to APNs, over all queues; idle ones of the longest-unused queues are closed when more are wanted.
    package var mostConnections = 2000
    /// For people: shown to operators, such as host and process.
    package var name = "worker"
    /// The program's version, shown to operators.
    package var version = ""

    /// How long a claim holds without being renewed. Alone decides who may write.
    package var lease = Duration.seconds(15)
    /// How long after a lease's end its job is put back, so that clocks need not agree to the millisecond.
    package var rescueGrace = Duration.seconds(2)
    /// Requests that wait for their answer at one time, over all connections.
    package var inFlight = 10_000
    /// Recipients held and not sent to, over all queues: each has a part of it, and a job at the least. What is held of a recipient
    /// takes some 60 bytes.
    package var mostHeld = 400_000
    /// Leases held, over all queues: a job of one recipient is one of them, as is one of 500. While renewing them is slow, they are fewer.
    package var mostLeases = 20_000
    /// How long a drain waits for what is in flight.
    package var drain = Duration.seconds(25)
    /// How far a job that is sent at most once may run ahead of its committed mark.
    package var atMostOnceWindow = 100

    /// How often outcomes are written.
    package var flushInterval = Duration.milliseconds(100)
    /// How often a busy worker looks for more urgent work.
    package var busyLook = Duration.milliseconds(10)
    /// The longest time between two looks of an idle worker, which is also woken by notifications.
    package var idleLook = Duration.milliseconds(500)
    /// How soon changed settings of a queue take effect.
    package var settingsRefresh = Duration.seconds(2)
    /// After so long a duty that failed is due again, if not sooner.
    package var dutyRetry = Duration.seconds(30)
    /// How often it is looked whether a provider token is due, where none was found due before.
    package var tokenLook = Duration.seconds(30)
    /// What a drain needs beyond the grace of the binary interface to end clean: silence is noticed, and what it came to is written.
    static let drainMargin = Duration.seconds(1)
    /// How far ahead permits of a rate limit are taken: what a stalled worker holds of them is lost to the rate.
    package var permitHorizon = Duration.milliseconds(250)

    /// Unanswered sends of a recipient before it is given up as `unknown`.
    package static let mostLosses = 5
    /// Times that a worker may be lost with a job before it is split in two.
    package static let rescuesBeforeSplit = 2

    package init() {}

    /// Where the binary interface of an environment is spoken; nil if that is not known.
    func binaryEndpoint(_ environment: Environment) -> Endpoint? {
        if let binaryGateway { return binaryGateway }
        return sendsElsewhere ? nil : Endpoint(binaryInterfaceOf: environment)
    }

    /// Where the feedback service of an environment is; nil if that is not known.
    func feedbackEndpoint(_ environment: Environment) -> Endpoint? {
        if let feedbackService { return feedbackService }
        return sendsElsewhere ? nil : Endpoint(feedbackServiceOf: environment)
    }

    private var sendsElsewhere: Bool { gateway != nil || binaryGateway != nil || feedbackService != nil }

    /// After this much of a lease without a successful renewal, nothing more is sent for it.
    var fence: Duration { lease * 2 / 3 }
}

/// What an engine tells whoever runs it; each is one line of a log.
package enum EngineEvent: Sendable, CustomStringConvertible {
    case started(name: String, version: String, database: String, queues: String)
    case noQueueMatches(pattern: String)
    case storeLost(String)
    case storeBack
    case storeRefused(String)
    case sessionLacks(SessionLack)
    case queuePaused(queue: String, reason: String)
    /// Somebody else paused it.
    case queueIsPaused(queue: String)
    case queueResumed(queue: String)
    case queueWithoutCredential(queue: String)
    case credentialUnreadable(queue: String, reason: String)
    case credentialExpires(name: String, warning: String, queues: Int)
    case clockInDoubt(keyID: String, minutes: Int)
    case gatewayUnreachable(queue: String, reason: String)
    case gatewayReachable(queue: String)
    case outageBegun(queue: String, reason: String)
    case outageOver(queue: String)
    case pushesUncertain(queue: String, count: Int, reason: String)
    case tokenMintedAnew(keyID: String)
    case deliveredTooSoon(queue: String, count: Int, grace: Duration)
    case drainTooShort(drain: Duration, grace: Duration)
    case leftInFlight(Int, drain: Duration)
    case jobsRescued(Int)
    case leasesLost(Int)
    case jobQuarantined(queue: String, job: Int64, reason: String)
    case leasesFound(Int)
    case devicesDeactivated(Int)
    case queuesPausedForTokens(Int)
    case feedbackRead(queue: String, count: Int)
    case feedbackActedOn(records: Int, deactivated: Int)
    case feedbackUnreachable(queue: String, reason: String)
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
        case .storeLost(let reason): "PostgreSQL is out of reach, trying again: \(reason)"
        case .storeBack: "PostgreSQL is back"
        case .storeRefused(let reason): "PostgreSQL refused: \(reason)"
        case .sessionLacks(let lack):
            "the pooler before PostgreSQL does not let a worker set what its sessions need, and role \(lack.role) lacks "
                + "\(lack.settings.joined(separator: ", ")); work will be slower. Set it for the role with: "
                + "pushq-admin migrate --worker-role \(lack.role)"
        case .queuePaused(let queue, let reason): "\(queue) paused: \(reason)"
        case .queueIsPaused(let queue): "\(queue) is paused, or its tenant suspended; see: pushq-admin queue list"
        case .queueResumed(let queue): "\(queue) resumed"
        case .queueWithoutCredential(let queue):
            "\(queue) has no credential; set one with: pushq-admin credential add"
        case .credentialUnreadable(let queue, let reason): "the credential of \(queue) cannot be used: \(reason)"
        case .credentialExpires(let name, let warning, let queues):
            "the certificate \(name) of \(queues) queues \(warning); put another in its place with: "
                + "pushq-admin credential replace"
        case .clockInDoubt(let keyID, let minutes):
            "APNs calls the provider token of key \(keyID) expired, and it is \(minutes) minutes old: look at the clock of "
                + "PostgreSQL's server; no other token is minted before this one is 20 minutes old"
        case .gatewayUnreachable(let queue, let reason): "APNs is out of reach for \(queue), trying again: \(reason)"
        case .gatewayReachable(let queue): "APNs is back for \(queue)"
        case .outageBegun(let queue, let reason):
            "APNs takes no pushes of \(queue) at present, it answers \(reason): they wait without an attempt spent, and one at a "
                + "time tries again"
        case .outageOver(let queue): "APNs takes pushes of \(queue) again"
        case .pushesUncertain(let queue, let count, let reason):
            "a connection of \(queue) was given up: \(reason); its \(count) pushes without an answer are sent again, or unknown where "
                + "that is not allowed"
        case .tokenMintedAnew(let keyID):
            "the provider token of key \(keyID) was sealed under another master key, so another one was minted"
        case .deliveredTooSoon(let queue, let count, let grace):
            "\(count) pushes of \(queue) were recorded as delivered after \(grace) of silence, and an error that came later says that "
                + "they were not: start workers with a longer --binary-grace"
        case .drainTooShort(let drain, let grace):
            "a drain of \(drain) is too short for the binary interface, whose pushes are delivered after \(grace) of silence: what "
                + "is in flight when this worker stops will be sent again; start it with --drain "
                + "\(Int(((grace + EngineSettings.drainMargin) / .seconds(1)).rounded(.up)))s or more"
        case .leftInFlight(let count, let drain):
            "stopped waiting after \(drain): \(count) pushes had no answer yet, and are sent again, or unknown where the message says "
                + "at most once"
        case .jobsRescued(let count): "put back \(count) jobs of workers that are gone"
        case .jobQuarantined(let queue, let job, let reason):
            "quarantined job \(job) of \(queue), nothing of it is sent: \(reason); see it with: pushq-admin job list --failed"
        case .leasesLost(let count): "lost \(count) leases to other workers"
        case .leasesFound(let count): "gave back \(count) leases whose claim had no answer"
        case .devicesDeactivated(let count): "deactivated \(count) devices whose tokens are bad"
        case .queuesPausedForTokens(let count):
            "paused \(count) queues with too many bad tokens: see pushq-admin queue list"
        case .feedbackRead(let queue, let count): "the feedback service named \(count) devices of \(queue)"
        case .feedbackActedOn(let records, let deactivated):
            "deactivated \(deactivated) devices after \(records) records of the feedback service"
        case .feedbackUnreachable(let queue, let reason):
            "the feedback service cannot be asked about \(queue), trying again: \(reason)"
        case .partitionsChanged(let statements): "history: \(statements.joined(separator: "; "))"
        case .dutyFailed(let name, let reason): "the duty \(name) failed and is tried again: \(reason)"
        case .draining: "draining: waiting for what is in flight"
        case .stopped(let sent): "stopped after \(sent) requests"
        }
    }
}
