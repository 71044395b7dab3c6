import PostgresStore
import QueueCore
import Terminal

struct QueueSetCommand: Command {
    static let name = "set"
    static let users = CommandUsers.operatorsOfQueues
    static let summary = "Changes settings of a queue; workers apply them within seconds."
    static let examples = [
        "queue set acme/com.acme.shop/production --rate 250 --burst 50",
        "queue set acme/com.acme.shop/production --weight 3 --connections 8",
        "queue set acme/com.acme.shop/production --no-rate",
        "queue set acme/com.acme.shop/production --gateway binary --credential shop-2026",
        "queue set acme/com.acme.shop/production --frequency-cap '3 per 1 day'",
        "queue set acme/com.acme.shop/production --frequency-cap '1 per calendar day' --cap-time-zone Europe/Vienna",
        "queue set acme/com.acme.shop/production --quiet-hours 22:00-08:00 --quiet-time-zone Europe/Vienna",
    ]

    @Positional("Its name: tenant/app/environment.") var queue: QueueName
    @Option("Maximum number of pushes per second, over all workers; may be a fraction.") var rate: Rate?
    @Option("Maximum number of pushes at once after a quiet time; with --rate alone a tenth of the rate.") var burst:
        Double?
    @Flag("Remove the limit.") var noRate
    @Option("Its share of a worker, relative to other queues: 0.001 to 1000.") var weight: Double?
    @Option("Maximum number of connections of one worker to APNs: 1 to 100.") var connections: Int?
    @Option("Maximum number of attempts for a recipient: 1 to 100.") var attempts: Int?
    @Option(
        """
        Whether an alert, or the start of a Live Activity, gets a collapse ID if it has none, so that a second copy \
        replaces the first; on if not set.
        """)
    var deriveCollapseId: Toggle?
    @Option("The interface of APNs; binary is Apple's old one, for compatible services.") var gateway: GatewayKind?
    @Option("How often to read the binary interface's feedback service: 1m to 30d; daily if not set.")
    var feedbackEvery: Duration?
    @Option(
        "Maximum number of alerts for each device in a period: '3 per 1 day', '3 per calendar day' in its time zone.")
    var frequencyCap: FrequencyCap?
    @Option("Whether the frequency cap also applies to urgent pushes; off if not set.") var capUrgent: Toggle?
    @Option("The time zone of devices whose time zone is not known, for calendar days; UTC if not set.", "ZONE")
    var capTimeZone: String?
    @Flag("Remove the frequency cap.") var noFrequencyCap
    @Option("Send no alert at these times of the day where the device is; it waits until they have passed.")
    var quietHours: QuietHours?
    @Option("Spread the alerts that have waited over this time after the quiet hours: 0s to 2h; 15m if not set.")
    var quietRelease: Duration?
    @Option("Whether urgent pushes also wait; off if not set.") var quietUrgent: Toggle?
    @Option("The time zone of devices whose time zone is not known; if not set, they have no quiet hours.", "ZONE")
    var quietTimeZone: String?
    @Flag("Remove the quiet hours.") var noQuietHours
    @Option("The credential that it uses.", "NAME") var credential: String?
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let settings = try Settings(self)
        try await database.session { store in
            try await store.transaction { try await settings.apply(to: queue, in: store) }
        }
        console.show("set \(queue)", json: ["queue": .string("\(queue)")])
    }

    /// The changes. What the command line alone shows is checked before the first is made.
    private struct Settings: Sendable {
        var change = QueueChange()
        let rate: Double?
        let burst: Double?
        let liftsRate: Bool
        let cap: FrequencyCap?
        let capsUrgent: Bool?
        let capTimeZone: String?
        let liftsCap: Bool
        var quiet = QuietHoursChange()
        let liftsQuiet: Bool
        let credential: String?

        init(_ command: QueueSetCommand) throws(UsageError) {
            rate = command.rate?.perSecond
            burst = command.burst
            liftsRate = command.noRate
            cap = command.frequencyCap
            capsUrgent = command.capUrgent.map { $0 == .on }
            capTimeZone = command.capTimeZone
            liftsCap = command.noFrequencyCap
            liftsQuiet = command.noQuietHours
            quiet.hours = command.quietHours
            quiet.release = command.quietRelease
            quiet.includesUrgent = command.quietUrgent.map { $0 == .on }
            quiet.timeZone = command.quietTimeZone
            credential = command.credential
            change.weight = try command.weight.bounded(0.001...1000, "--weight")
            change.connections = try command.connections.bounded(1...100, "--connections")
            change.maxAttempts = try command.attempts.bounded(1...100, "--attempts")
            change.derivesCollapseID = command.deriveCollapseId.map { $0 == .on }
            change.gateway = command.gateway
            change.feedbackEvery = command.feedbackEvery
            if let interval = command.feedbackEvery, !Self.feedbackIntervals.contains(interval) {
                throw UsageError("--feedback-every \(interval.shown) is not between 1m and 30d")
            }
            guard !liftsRate || (rate == nil && burst == nil) else {
                throw UsageError("--no-rate cannot be used with --rate or --burst")
            }
            let changesCap = cap != nil || capsUrgent != nil || capTimeZone != nil
            guard !liftsCap || !changesCap else {
                throw UsageError(
                    "--no-frequency-cap cannot be used with --frequency-cap, --cap-urgent or --cap-time-zone")
            }
            guard capTimeZone != "" else { throw UsageError("--cap-time-zone is empty") }
            guard !liftsQuiet || quiet.isEmpty else {
                throw UsageError(
                    "--no-quiet-hours cannot be used with --quiet-hours, --quiet-release, --quiet-urgent or "
                        + "--quiet-time-zone")
            }
            guard quiet.timeZone != "" else { throw UsageError("--quiet-time-zone is empty") }
            if let release = quiet.release, !QuietHours.releases.contains(release) {
                throw UsageError("--quiet-release \(release.shown) is not between 0s and 2h")
            }
            _ = try rate.bounded(Rate.limits, "--rate")
            _ = try burst.bounded(1...1_000_000, "--burst")
            guard
                rate != nil || burst != nil || liftsRate || credential != nil || changesCap || liftsCap
                    || !change.isEmpty || !quiet.isEmpty || liftsQuiet
            else {
                throw UsageError("no setting is given")
            }
        }

        private static let feedbackIntervals = Duration.seconds(60) ... .seconds(30 * 86_400)

        func apply(to queue: QueueName, in store: PostgresConnection) async throws {
            if let credential { try await Self.check(credential, for: queue, in: store) }
            if let capTimeZone, let problem = try await store.timeZoneProblem(capTimeZone) {
                throw UsageError("--cap-time-zone: \(problem)")
            }
            if let zone = quiet.timeZone, let problem = try await store.timeZoneProblem(zone) {
                throw UsageError("--quiet-time-zone: \(problem)")
            }
            // The binary interface needs a certificate, so the credential must be set first. For a change to HTTP/2,
            // the order is reversed.
            if change.gateway == .http2 { try await store.setQueue(queue, to: change) }
            if let credential, try await !store.useCredential(credential, forQueue: queue) {
                throw Failure.noCredential(credential, of: queue.tenant)
            }
            if change.gateway != .http2 { try await store.setQueue(queue, to: change) }
            if liftsRate { try await store.liftRate(of: queue) }
            if let rate {
                try await store.setRate(rate, burst: burst, of: queue)
            } else if let burst, try await !store.setBurst(burst, of: queue) {
                throw Failure("\(queue) has no rate, so --burst has no effect; give --rate, too")
            }
            if liftsCap { try await store.liftFrequencyCap(of: queue) }
            if let cap {
                try await store.setFrequencyCap(cap, includesUrgent: capsUrgent, timeZone: capTimeZone, of: queue)
            } else if capsUrgent != nil || capTimeZone != nil,
                try await !store.changeFrequencyCap(includesUrgent: capsUrgent, timeZone: capTimeZone, of: queue)
            {
                throw Failure("\(queue) has no frequency cap; give --frequency-cap, too")
            }
            if liftsQuiet { try await store.liftQuietHours(of: queue) }
            if !quiet.isEmpty, try await !store.setQuietHours(quiet, of: queue) {
                throw Failure("\(queue) has no quiet hours; give --quiet-hours, too")
            }
        }

        /// Throws unless APNs would accept the credential for the queue.
        private static func check(
            _ credential: String, for queue: QueueName, in store: PostgresConnection
        ) async throws {
            guard let stored = try await store.sealedCredential(credential, of: queue.tenant) else {
                throw Failure.noCredential(credential, of: queue.tenant)
            }
            try stored.scope.check(credential, for: [queue], at: await store.time())
        }
    }
}

extension Optional where Wrapped: Comparable {
    /// The value, if one was given.
    /// - Throws: an error that names the option, if the value is outside `range`.
    func bounded(_ range: ClosedRange<Wrapped>, _ option: String) throws(UsageError) -> Self {
        guard let value = self, !range.contains(value) else { return self }
        throw UsageError(
            "\(option) \(Self.shown(value)) is not between \(Self.shown(range.lowerBound)) and \(Self.shown(range.upperBound))"
        )
    }

    /// A whole number without the `.0` that Swift writes.
    private static func shown(_ value: Wrapped) -> String {
        guard let number = value as? Double, let whole = Int(exactly: number) else { return "\(value)" }
        return "\(whole)"
    }
}

extension Rate {
    /// The limits of the rate of a queue or tenant, in pushes per second.
    static let limits = 0.0001...1_000_000
}

/// A setting that is on or off.
enum Toggle: String, ArgumentChoice {
    case on, off
}

extension GatewayKind: ArgumentChoice {}

extension QueueChange {
    fileprivate var isEmpty: Bool {
        weight == nil && connections == nil && maxAttempts == nil && derivesCollapseID == nil && gateway == nil
            && feedbackEvery == nil
    }
}
