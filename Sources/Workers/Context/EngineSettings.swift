package import APNs
package import PostgresStore
import QueueCore
package import Transport

/// What a worker is started with. A bound that nobody sets is in the type that keeps it.
package struct EngineSettings: Sendable {
    /// The queues that the worker serves, as a pattern of `tenant/app/environment` in which `*` matches anything.
    package var queues = "*"
    /// Where the worker sends pushes over HTTP/2; nil for Apple's hosts.
    package var endpoint: Endpoint?
    /// The port at Apple's hosts.
    package var applePort = Endpoint.applePorts[0]
    /// Where the worker sends broadcasts; nil to use the endpoint for devices. Apple's pages disagree on the host for
    /// broadcasts: the page on connections names the host for devices, some samples name
    /// `api-broadcast.push.apple.com`.
    package var broadcastEndpoint: Endpoint?
    /// Where the worker sends pushes of queues that use the binary interface, and where it asks the feedback service.
    /// If these are nil, a worker with any other endpoint than Apple's uses neither.
    package var binaryEndpoint: Endpoint?
    package var feedbackEndpoint: Endpoint?
    package var binary = BinarySettings()
    /// The limits and times of connections to APNs. The number of connections is a setting of each queue.
    package var connections = GatewaySettings()
    /// How long after an outage of APNs the worker still watches whether it has ended, if few pushes show it.
    package var recoveryTime = Breaker.timeOfRecovery
    /// Which addresses tenants' webhooks may have.
    package var webhooks = AddressRules()
    /// The maximum number of messages to tenants' webhooks under way at a time. Each has a connection of its own, and
    /// takes up to 120 KB.
    package var webhooksAtOnce = 512
    /// The maximum number of connections to APNs, over all queues. If more are wanted, the engine closes those that
    /// have been idle for the longest time.
    package var maximumConnections = 2000
    /// What the engine waits for at the start.
    package var waits = WaitAtStart.never
    /// How long one attempt to start may wait for a server that is restarting.
    package var startTime = Duration.seconds(10)
    /// The name that operators see, such as host and process.
    package var name = "worker"
    /// The program's version, which operators see.
    package var version = ""

    /// How long a claim holds without a renewal. Only the lease decides who may write.
    package var lease = Duration.seconds(15)
    /// How long after a lease's end its job is put back. Because of it, clocks need not agree to the millisecond.
    package var rescueGrace = Duration.seconds(2)
    /// The maximum number of requests that wait for an answer, over all connections.
    package var inFlight = 10_000
    /// The maximum number of held recipients that are not sent to yet, over all queues. Each queue has a part of it,
    /// and at least one job. A held recipient takes about 60 bytes.
    package var maximumHeld = 400_000
    /// The maximum number of leases held, over all queues. A job is one lease, whether it has one recipient or 500.
    /// While renewals are slow, the limit is lower (``LeaseBudget``).
    package var maximumLeases = 20_000
    /// The maximum number of bytes that the translations of held jobs' messages take, over all queues. At least what
    /// the longest message has.
    package var maximumTranslations = 64 << 20
    /// How long the worker sends to the tokens that a claim has read. After that it gives the job back with its
    /// remaining recipients, and a new claim reads the devices again: a device may have been deactivated, or registered
    /// by another user. Jobs are held this long behind more urgent jobs of their queue, or while a rate limit or APNs
    /// is slow.
    package var tokenAge = Duration.seconds(10)
    /// The same for an update of a Live Activity: meanwhile a newer one may have been sent by another worker. Counts
    /// from when the worker has got the update, not from when it sent the claim: if claims took longer than this, each
    /// update would be too old when it came, and go back for ever.
    package var updateAge = Duration.milliseconds(250)
    /// How long a drain waits for pushes in flight.
    package var drain = Duration.seconds(25)
    /// How far the sending of an at-most-once job may run ahead of its committed watermark.
    package var atMostOnceWindow = 100

    /// When the worker stops trying to end a job whose end PostgreSQL refuses.
    package var setAside = SetAsidePolicy()

    /// How often outcomes are written.
    package var flushInterval = Duration.milliseconds(100)
    /// How long writing outcomes may take before the worker sends nothing more. A busy disk takes a second at times.
    package var writePatience = Duration.seconds(2)
    /// Whether this worker may be the one that asks the database for the figures of the fleet.
    package var publishesMetrics = false

    /// How often a busy worker polls for more urgent work.
    package var busyPoll = Duration.milliseconds(10)
    /// The longest time between two polls of an idle worker. Notifications wake it, too.
    package var idlePoll = Duration.milliseconds(500)
    /// How soon changed settings of a queue take effect.
    package var settingsRefresh = Duration.seconds(2)
    /// The time after which a failed duty is due again, if not sooner.
    package var dutyRetry = Duration.seconds(30)
    /// How often the worker checks whether a provider token is due, if none was due at the last check.
    package var tokenPoll = Duration.seconds(30)
    /// The time that a drain needs in addition to the grace of the binary interface to end cleanly: it has to notice
    /// the silence and write the outcomes.
    static let drainMargin = Duration.seconds(1)
    /// How far ahead the worker takes permits of a rate limit. If a worker stalls, its permits are lost to the rate.
    package var permitHorizon = Duration.milliseconds(250)

    /// The number of unanswered sends after which a recipient is given up as `unknown`.
    package static let maximumLosses = LossIsolation.maximumLosses
    /// The number of workers that may be lost with a job before the job is split in two.
    package static let lossesBeforeSplit = 2

    package init() {}

    /// The endpoint of an environment's binary interface; nil if it is not known.
    func binaryEndpoint(of environment: Environment) -> Endpoint? {
        if let binaryEndpoint { return binaryEndpoint }
        return sendsElsewhere ? nil : Endpoint(binaryInterfaceOf: environment)
    }

    /// The endpoint of an environment's feedback service; nil if it is not known.
    func feedbackEndpoint(of environment: Environment) -> Endpoint? {
        if let feedbackEndpoint { return feedbackEndpoint }
        return sendsElsewhere ? nil : Endpoint(feedbackServiceOf: environment)
    }

    private var sendsElsewhere: Bool { endpoint != nil || binaryEndpoint != nil || feedbackEndpoint != nil }

    /// The part of a lease after which, without a successful renewal, the worker sends nothing more for it.
    var fence: Duration { lease * 2 / 3 }
}

/// Whether an engine waits for a database that it cannot use at the start. Otherwise the engine ends with an error.
package enum WaitAtStart: Sendable {
    case never
    /// Waits while PostgreSQL is out of reach, which passes. A problem that an operator has to mend first is an error.
    case untilInReach
    /// Also waits if the server refuses this worker, or if the versions of worker and schema do not suit each other.
    /// For workers of several databases, which serve the other databases meanwhile.
    case always
}
