import APNs
import PostgresStore
import QueueCore

/// What the engine keeps for one queue while it works for it: settings, held jobs by lane, permits, its share.
///
/// Belongs to the engine's event loop.
final class QueueState {
    let id: Int32
    var settings: QueueSettings
    /// The connections of the queue's credential; nil while the queue has no usable credential.
    var gateway: (any PushGateway)?
    /// The connections to the host for broadcasts alone; nil where there is no such host.
    var broadcastGateway: (any PushGateway)?
    /// What the answers of these gateways say about APNs.
    var circuit: Circuit?
    var broadcastCircuit: Circuit?
    /// What APNs says about the queue's key and topics.
    var unrelatedKey = UnrelatedKey()
    var topicRefusals = TopicRefusals()
    /// The queue's tenant, and the queue's place in the order among the tenant's queues.
    let tenant: TenantShare
    var turn: FairShare.Turn
    /// The jobs with recipients to send to, by shared lane.
    private var lanes = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// The same for broadcasts that go to a host of their own, so that devices and broadcasts do not wait for each
    /// other's connections.
    private var broadcasts = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// The lanes of single campaigns.
    var campaigns = CampaignLanes()
    /// Determines which of several lanes of the same urgency comes first.
    var rotation = 0
    /// Whether the dispatcher has the queue, because jobs of it are held; the queue's place there, whether it waits,
    /// and until when.
    var isActive = false
    var place = 0
    var isParked = false
    var throttledUntil: ContinuousClock.Instant?
    /// The queue's counts. All queues beyond the limit of those with metrics of their own share one object.
    let figures: QueueFigures
    /// What the next heartbeat shows of the queue.
    var throughput = QueueThroughput()
    /// Requests in flight, and how many of them wait only for the grace of the binary interface.
    var inFlight = 0
    var inSilence = 0
    /// The number of its jobs that this worker holds, in whatever state.
    private(set) var heldJobs = 0
    /// Set while this worker does not send for the queue, whatever its settings say: see ``ServedQueues``.
    var isBlocked = false

    /// The queue's own limit. Each of its permits is also a permit of the tenant.
    var limit: RateLimit

    /// When the settings were read, and when there was last work for the queue.
    var readAt: ContinuousClock.Instant
    var lastWanted: ContinuousClock.Instant

    /// Whether a poll found unclaimed jobs in a shared lane. With fewer held recipients than `lowWater`, the queue
    /// could soon send more than it holds.
    private var hasMoreWaiting = false
    private var lowWater = 0
    var messages = PreparedMessages()
    /// Recipients sent to since the rate was last measured, and that rate in recipients per second.
    var sentSinceMeasured = 0
    var sendRate = 0.0
    /// The average number of recipients of the claimed jobs, for each shared lane.
    private(set) var sharedJobSize: [Double] = [50, 50, 500]

    init(
        settings: QueueSettings, of tenant: TenantShare = TenantShare(), figures: QueueFigures = QueueFigures(),
        now: ContinuousClock.Instant
    ) {
        id = settings.queueID
        self.figures = figures
        self.tenant = tenant
        self.settings = settings
        turn = FairShare.Turn(weight: settings.weight)
        limit = RateLimit(rate: settings.rate, now: now)
        readAt = now
        lastWanted = now
    }

    /// Whether there was work for the queue since `moment`, or is now.
    func isInUse(since moment: ContinuousClock.Instant) -> Bool {
        hasJobs || inFlight > 0 || lastWanted >= moment
    }

    /// Whether the queue's gateways have connections, or try to connect.
    var hasConnections: Bool {
        [gateway, broadcastGateway].contains { gateway in
            switch gateway?.state {
            case nil, .idle, .closed: false
            case .connecting, .open, .unreachable: true
            }
        }
    }

    /// Whether a gateway of the queue has a connection that takes pushes, now or in a moment.
    var isConnected: Bool {
        if case .open = gateway?.state { return true }
        if case .open = broadcastGateway?.state { return true }
        return false
    }

    /// Whether the queue may send but holds no jobs, because it has no connection.
    var waitsForTurn: Bool { mayWork && heldJobs == 0 && inFlight == 0 && !isConnected }

    /// Whether the queue may send at all.
    var mayWork: Bool { !isBlocked && !settings.isPaused && gateway != nil }

    /// Whether the queue's gateway cannot connect to APNs.
    var isDisconnected: Bool {
        if case .unreachable = gateway?.state { true } else { false }
    }

    /// Whether APNs answers, as far as the gateway knows. While it does not, no jobs are claimed.
    func canReachAPNs(now: ContinuousClock.Instant) -> Bool { !isDisconnected && circuit?.isOpen(now: now) != true }

    /// The number of pushes that the gateway will take soon, as far as APNs' answers allow.
    func outlet(now: ContinuousClock.Instant) -> Int {
        guard let gateway, let circuit, !circuit.isClosed else { return .max }
        // This is enough for the pushes that each answer allows.
        return max(1, circuit.room(of: gateway, now: now)) * 2
    }

    /// The number of recipients that are worth holding.
    func stock(now: ContinuousClock.Instant) -> Int {
        max(outlet(now: now), Self.leastStock + (circuit?.refusedCount ?? 0))
    }

    /// The minimum number of recipients to hold. During an outage, one push at a time tries. If only one were held,
    /// APNs might always refuse that one; with this many, another push can try. The recipients refused during the
    /// outage are added, because they may be the oldest.
    private static let leastStock = 200

    /// The gateway over which a job is sent.
    func gateway(for job: HeldJob) -> (any PushGateway)? {
        job.claim.message.isBroadcast ? broadcastGateway ?? gateway : gateway
    }

    /// Calls `body` with each gateway that the queue's pushes go over.
    func eachGateway(_ body: (ObjectIdentifier) -> Void) {
        if let gateway { body(ObjectIdentifier(gateway)) }
        if let broadcastGateway { body(ObjectIdentifier(broadcastGateway)) }
    }

    /// What is known about APNs as reached over a gateway; nil for a gateway that the queue no longer uses.
    func circuit(of gateway: any PushGateway) -> Circuit? {
        if self.gateway === gateway { return circuit }
        return broadcastGateway === gateway ? broadcastCircuit : nil
    }

    /// How long a job has to wait because the host for broadcasts is out of reach while the host for devices is not;
    /// nil if the job need not wait.
    func delay(of job: HeldJob, now: ContinuousClock.Instant) -> Duration? {
        guard job.claim.message.isBroadcast, let broadcastGateway else { return nil }
        if case .unreachable(let outage) = broadcastGateway.state {
            return max(now.duration(to: outage.nextAttempt), .seconds(1))
        }
        guard let broadcastCircuit, broadcastCircuit.isOpen(now: now) else { return nil }
        return broadcastCircuit.nextTry.map { max(now.duration(to: $0), .seconds(1)) }
    }

    /// The number of pushes that the connections take now. Requests more connections if there is no room and jobs wait.
    func roomForPushes(now: ContinuousClock.Instant) -> Int {
        var room = 0
        if let gateway { room = Self.room(of: gateway, circuit, isWanted: hasJobsForDevices, now: now) }
        if let broadcastGateway {
            room += Self.room(
                of: broadcastGateway, broadcastCircuit, isWanted: broadcasts.contains { !$0.isEmpty }, now: now)
        }
        return room
    }

    private static func room(
        of gateway: any PushGateway, _ circuit: Circuit?, isWanted: Bool, now: ContinuousClock.Instant
    ) -> Int {
        guard isWanted else { return 0 }
        let allowed = circuit?.room(of: gateway, now: now) ?? .max
        guard allowed > 0 else { return 0 }
        let slots = gateway.freeSlots
        if slots == 0 { gateway.requestCapacity() }
        return min(slots, allowed)
    }

    /// The maximum length of a message's payload when it is sent to a device of this queue.
    func maximumPayloadBytes(of message: StoredMessage) -> Int {
        let maximum = message.pushType.maximumPayloadBytes
        return settings.gateway == .binary ? min(maximum, BinaryCommand.framed.maximumPayloadBytes) : maximum
    }

    /// The message of a job in the form in which it is sent.
    func push(for job: HeldJob) -> PreparedPush { messages.push(for: job.claim.message, settings) }

    /// Updates the average job size of a lane.
    func noteSize(of claim: ClaimedJob) {
        let count = Double(claim.deviceIDs.count)
        if let campaign = campaigns[claim.lane] {
            campaign.jobSize += (count - campaign.jobSize) / 8
        } else {
            let lane = Int(claim.lane.peer.rawValue)
            sharedJobSize[lane] += (count - sharedJobSize[lane]) / 8
        }
    }

    /// Adds a job, to be sent or sent again.
    func add(_ job: HeldJob) {
        if let campaign = campaigns[job.claim.lane] { return campaigns.add(job, to: campaign) }
        let lane = Int(job.claim.lane.peer.rawValue)
        if broadcastGateway != nil, job.claim.message.isBroadcast {
            broadcasts[lane].add(job)
        } else {
            lanes[lane].add(job)
        }
    }

    /// The next job to send from in `lane`: the oldest that has recipients to send to. Broadcasts to a host of their
    /// own go first while that host's gateway has room: they have one recipient each.
    func sendableJob(in lane: Lane, _ choice: JobChoice = .oldest) -> HeldJob? {
        if !lane.isShared { return campaigns[lane]?.jobs.next(choice, circuit) }
        let lane = Int(lane.rawValue)
        if !broadcasts[lane].isEmpty, broadcastGateway?.freeSlots ?? 0 > 0, let job = broadcasts[lane].next() {
            return job
        }
        return lanes[lane].next(choice, circuit)
    }

    /// Which jobs may be sent from, as far as APNs currently accepts pushes for devices.
    func jobChoice(now: ContinuousClock.Instant) -> JobChoice {
        guard let circuit, !circuit.isClosed else { return .oldest }
        let mayTryRefused = circuit.nextTry == nil || circuit.mayTryRefused(now: now) && !hasUntriedJobs
        return mayTryRefused ? .untriedFirst(circuit.end) : .untriedOnly(circuit.end)
    }

    /// Whether there are sendable jobs for devices that APNs has not refused before.
    private var hasUntriedJobs: Bool {
        lanes.contains { $0.untried(.oldest, circuit) != nil }
            || Lane.shared.contains {
                campaigns.ready(asUrgentAs: $0).contains { $0.jobs.untried(.oldest, circuit) != nil }
            }
    }

    /// Whether jobs are held that may have recipients to send to, in `lane` or in any lane.
    func hasJobs(in lane: Lane) -> Bool {
        !lanes[Int(lane.rawValue)].isEmpty || !broadcasts[Int(lane.rawValue)].isEmpty
            || campaigns.hasJobs(asUrgentAs: lane)
    }
    var hasJobs: Bool { hasJobsForDevices || broadcasts.contains { !$0.isEmpty } }
    private var hasJobsForDevices: Bool { hasSharedJobs || campaigns.hasJobs }
    private var hasSharedJobs: Bool { lanes.contains { !$0.isEmpty } }

    /// The recipients held and not sent to: of all lanes, of the shared lanes, or those that are sent to before what
    /// arrives in `lane` now.
    var unsent: Int { sharedUnsent + campaigns.unsent }
    var sharedUnsent: Int { lanes.reduce(0) { $0 + $1.unsent } + broadcasts.reduce(0) { $0 + $1.unsent } }
    func unsent(before lane: Lane) -> Int {
        if let campaign = campaigns[lane] { return campaign.jobs.unsent }
        return (0...Int(lane.peer.rawValue)).reduce(0) { $0 + lanes[$1].unsent + broadcasts[$1].unsent }
    }

    /// Notes that a job is held, or no longer held.
    func noteHeld(_ job: HeldJob, count: Int) {
        heldJobs += count
        campaigns[job.claim.lane]?.heldJobs += count
    }

    /// Called before a poll: forgets that jobs wait.
    func forgetStock() {
        hasMoreWaiting = false
        campaigns.forgetStock()
    }

    /// The same for a poll of only some queues, in their shared lanes.
    /// - Parameters:
    ///   - found: the queues in which the poll found jobs.
    ///   - coversAll: whether the poll reached the end of `ranges`.
    func forgetStock(before found: Set<Int32>, within ranges: [QueueRange], coversAll: Bool) {
        if found.contains(id) { return forgetStock() }
        // The poll did not find jobs of this queue, so there is no reason to poll again at once.
        if hasMoreWaiting, coversAll, ranges.contains(where: { $0.contains(id) }) { hasMoreWaiting = false }
    }

    /// Notes that a poll found jobs in a lane. They are worth claiming while fewer recipients than `lowWater` are held.
    func noteWaiting(in lane: Lane, lowWater: Int) {
        if let campaign = campaigns[lane] {
            campaigns.noteWaiting(in: campaign, lowWater: lowWater)
        } else {
            (hasMoreWaiting, self.lowWater) = (true, lowWater)
        }
    }

    /// Whether the queue could soon send more than it holds and jobs wait. For campaigns' own lanes, whether that is
    /// new.
    func takeRunsLow() -> Bool {
        let ofCampaigns = campaigns.takeRunsLow()
        return mayWork && (ofCampaigns || hasMoreWaiting && sharedUnsent < lowWater)
    }

    /// Whether the queue, its tenant, or one of its campaigns has a rate limit.
    var isPaced: Bool { limit.rate != nil || tenant.limit.rate != nil || campaigns.isPaced }

    /// The pushes per second that the limits of queue and tenant allow; nil if there is no limit.
    var maximumRate: Double? {
        guard let rate = limit.rate, let ofTenant = tenant.limit.rate else { return limit.rate ?? tenant.limit.rate }
        return min(rate, ofTenant)
    }

    /// The permits with which the queue sends: its own, or those of the tenant for all queues without a limit of their
    /// own. Each permit of the queue is also one of the tenant, so a worker that has it can use it.
    var permits: RateLimit {
        get { limit.rate == nil ? tenant.limit : limit }
        set { if limit.rate == nil { tenant.limit = newValue } else { limit = newValue } }
    }

    /// The limit that these permits are taken from.
    var permitOwner: RateLimitOwner {
        limit.rate == nil ? .tenant(settings.tenantID) : .queue(id, ofTenant: settings.tenantID)
    }

    /// The number of permits that the queue could use soon. Without a connection it takes none: they would lapse, while
    /// other workers could send with them.
    func demandForPermits(now: ContinuousClock.Instant) -> Int {
        isConnected ? min(unsentWithoutOwnRate, outlet(now: now)) : 0
    }

    /// The number of pushes that the rate limits allow now, over all lanes.
    func allowance(at now: ContinuousClock.Instant) -> Int {
        guard !campaigns.isEmpty else { return sharedAllowance(at: now) }
        let (count, hasUnpaced) = campaigns.allowance(at: now, lapsed: &figures.counts.permitsLapsed)
        guard hasUnpaced || hasSharedJobs || broadcasts.contains(where: { !$0.isEmpty }) else { return count }
        let (sum, isUnlimited) = count.addingReportingOverflow(sharedAllowance(at: now))
        return isUnlimited ? .max : sum
    }

    /// The number of pushes that the rate limits allow now in the shared lanes.
    func sharedAllowance(at now: ContinuousClock.Instant) -> Int {
        let allowance = limit.rate == nil ? tenant.limit.allowance(at: now) : limit.allowance(at: now)
        if isPaced { figures.counts.permitsLapsed += limit.takeLapsed() + tenant.limit.takeLapsed() }
        return allowance
    }

    /// When waiting recipients may use the next of the permits that were granted; nil if there is none.
    var nextPermit: ContinuousClock.Instant? {
        let ofCampaigns = campaigns.nextPermit
        guard maximumRate != nil, unsentWithoutOwnRate > 0, let next = permits.nextPermit else { return ofCampaigns }
        return min(ofCampaigns ?? next, next)
    }

    /// Counts pushes that were sent.
    func noteSent(_ count: Int) { sentSinceMeasured += count }
}
