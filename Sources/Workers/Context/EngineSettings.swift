package import APNs
package import PostgresStore
import QueueCore
package import Transport

/// How a worker works. Every bound of the engine is here.
package struct EngineSettings: Sendable {
    /// Which queues it serves, as a pattern of `tenant/app/environment` in which `*` stands for anything.
    package var queues = "*"
    /// Where the worker sends pushes over HTTP/2; nil for Apple.
    package var endpoint: Endpoint?
    /// The port of Apple's hosts.
    package var applePort = Endpoint.applePorts[0]
    /// Where it sends broadcasts; nil for where pushes to devices go. Apple's pages disagree on the host for
    /// broadcasts: the page on connections names the one for devices, some samples name `api-broadcast.push.apple.com`.
    package var broadcastEndpoint: Endpoint?
    /// Where it sends the queues that use the binary interface, and where it asks the feedback service. If these are
    /// nil, a worker that sends anything elsewhere than to Apple uses neither.
    package var binaryEndpoint: Endpoint?
    package var feedbackEndpoint: Endpoint?
    package var binary = BinarySettings()
    /// Limits and times of the connections to APNs; how many there are is each queue's setting.
    package var connections = GatewaySettings()
    /// Where the webhooks of tenants may be.
    package var webhooks = AddressRules()
    /// The maximum number of connections to APNs, over all queues. If more are wanted, the connections that were idle
    /// for the longest time are closed.
    package var maximumConnections = 2000
    /// What it waits for at the start.
    package var waits = WaitAtStart.never
    /// The name that operators see, such as host and process.
    package var name = "worker"
    /// The program's version, shown to operators.
    package var version = ""

    /// How long a claim holds without being renewed. Alone decides who may write.
    package var lease = Duration.seconds(15)
    /// How long after a lease's end its job is put back, so that clocks need not agree to the millisecond.
    package var rescueGrace = Duration.seconds(2)
    /// The maximum number of requests that wait for an answer, over all connections.
    package var inFlight = 10_000
    /// The maximum number of recipients that are held and not sent to, over all queues. Each queue has a part of it,
    /// and at least one job. A held recipient takes about 60 bytes.
    package var maximumHeld = 400_000
    /// The maximum number of leases that are held, over all queues. A job is one lease, whether it has one recipient or
    /// 500. While renewals are slow, the limit is lower (``LeaseBudget``).
    package var maximumLeases = 20_000
    /// How long the tokens that a claim has read are sent to. After that the job is given back with the recipients that
    /// it still has, and claimed again with the devices as they are by then: a device may have been deactivated, or
    /// registered by another user. Jobs are held for so long behind more urgent ones of their queue, and while a rate
    /// limit or APNs is slow.
    package var tokenAge = Duration.seconds(10)
    /// How long a drain waits for what is in flight.
    package var drain = Duration.seconds(25)
    /// How far a job that is sent at most once may run ahead of its committed watermark.
    package var atMostOnceWindow = 100

    /// When a job whose end PostgreSQL refuses is tried no more.
    package var setAside = SetAsidePolicy()

    /// How often outcomes are written.
    package var flushInterval = Duration.milliseconds(100)
    /// Whether it may be the worker that asks the database for the figures of the fleet.
    package var publishesMetrics = false

    /// How often a busy worker polls for more urgent work.
    package var busyPoll = Duration.milliseconds(10)
    /// The longest time between two polls of an idle worker, which is also woken by notifications.
    package var idlePoll = Duration.milliseconds(500)
    /// How soon changed settings of a queue take effect.
    package var settingsRefresh = Duration.seconds(2)
    /// A duty that failed is due again after this time, if not sooner.
    package var dutyRetry = Duration.seconds(30)
    /// How often the worker checks whether a provider token is due, if none was due before.
    package var tokenPoll = Duration.seconds(30)
    /// The time that a drain needs beyond the grace of the binary interface to end cleanly: to notice the silence and
    /// to write the outcomes.
    static let drainMargin = Duration.seconds(1)
    /// How far ahead permits of a rate limit are taken. The permits of a worker that stalls are lost to the rate.
    package var permitHorizon = Duration.milliseconds(250)

    /// Unanswered sends of a recipient before it is given up as `unknown`.
    package static let maximumLosses = 5
    /// The number of workers that may be lost with a job before it is split in two.
    package static let rescuesBeforeSplit = 2

    package init() {}

    /// Where the binary interface of an environment is spoken; nil if that is not known.
    func binaryEndpoint(of environment: Environment) -> Endpoint? {
        if let binaryEndpoint { return binaryEndpoint }
        return sendsElsewhere ? nil : Endpoint(binaryInterfaceOf: environment)
    }

    /// Where the feedback service of an environment is; nil if that is not known.
    func feedbackEndpoint(of environment: Environment) -> Endpoint? {
        if let feedbackEndpoint { return feedbackEndpoint }
        return sendsElsewhere ? nil : Endpoint(feedbackServiceOf: environment)
    }

    private var sendsElsewhere: Bool { endpoint != nil || binaryEndpoint != nil || feedbackEndpoint != nil }

    /// After this much of a lease without a successful renewal, nothing more is sent for it.
    var fence: Duration { lease * 2 / 3 }
}

/// Whether an engine waits for a database that it cannot use at the start. Otherwise it ends with an error.
package enum WaitAtStart: Sendable {
    case never
    /// While PostgreSQL is out of reach, which passes. What somebody has to mend first is an error.
    case untilInReach
    /// Also if the server refuses this worker, or their versions do not suit each other. For workers of several
    /// databases, which serve the others meanwhile.
    case always
}
