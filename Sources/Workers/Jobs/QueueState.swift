import APNs
import PostgresStore
import QueueCore

/// What the engine keeps of one queue while it works for it: settings, held jobs by lane, permits, its share.
///
/// Belongs to the engine's event loop.
final class QueueState {
    let id: Int32
    var settings: QueueSettings
    /// The connections of its credential; nil while it has no credential that can be used.
    var gateway: (any PushGateway)?
    /// Those to the host that is for broadcasts alone; nil where there is no such host.
    var broadcastGateway: (any PushGateway)?
    /// What their answers say of APNs.
    var circuit: Circuit?
    var broadcastCircuit: Circuit?
    /// What APNs says of its key.
    var unrelatedKey = UnrelatedKey()
    var topicRefusals = TopicRefusals()
    /// Whose queue it is, and its place in the order among the queues of that tenant.
    let tenant: TenantShare
    var turn: FairShare.Turn
    /// Jobs with recipients to send to.
    private var lanes = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// The same for broadcasts that go to a host of their own, so that neither wait for the other's connections.
    private var broadcasts = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// Those that are one campaign's own.
    var campaigns = CampaignLanes()
    /// Which of the lanes that are as urgent as one another is looked at first.
    var rotation = 0
    /// Whether it is one of the dispatcher's: jobs of it are held. Its place there, whether it waits, and until when.
    var isActive = false
    var place = 0
    var isParked = false
    var throttledUntil: ContinuousClock.Instant?
    /// What is counted of it; shared by all queues beyond the limit of those with metrics of their own.
    let figures: QueueFigures
    /// What this worker will show of it next.
    var throughput = QueueThroughput()
    /// Requests in flight, and those of them that wait for the grace of the binary interface only.
    var inFlight = 0
    var inSilence = 0
    /// Its jobs that this worker holds, whatever it does with them.
    private(set) var heldJobs = 0
    /// Set while this worker will not send for it, whatever its settings say: see ``ServedQueues``.
    var isBlocked = false

    /// Its own limit. Its permits are also those of its tenant's.
    var limit: RateLimit

    /// When its settings were read, and when there was last work for it.
    var readAt: ContinuousClock.Instant
    var lastWanted: ContinuousClock.Instant

    /// Whether a poll found jobs that are not claimed, in a lane that all share; with fewer recipients held than this,
    /// it could soon send more than it holds.
    private var hasMoreWaiting = false
    private var lowWater = 0
    var messages = PreparedMessages()
    /// Recipients sent to since the rate was last measured, and that rate, in recipients a second.
    var sentSinceMeasured = 0
    var sendRate = 0.0
    /// Recipients of a job, on the average of those claimed of each lane that all share.
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

    /// Whether there was work for it since `moment`, or is now.
    func isInUse(since moment: ContinuousClock.Instant) -> Bool {
        hasJobs || inFlight > 0 || lastWanted >= moment
    }

    /// Whether its gateways have, or try to have, connections.
    var hasConnections: Bool {
        [gateway, broadcastGateway].contains { gateway in
            switch gateway?.state {
            case nil, .idle, .closed: false
            case .connecting, .open, .unreachable: true
            }
        }
    }

    /// Whether a gateway of it has a connection that takes pushes, now or in a moment.
    var isConnected: Bool {
        if case .open = gateway?.state { return true }
        if case .open = broadcastGateway?.state { return true }
        return false
    }

    /// Whether it may send, and none of its jobs is held because it has no connection.
    var waitsForTurn: Bool { mayWork && heldJobs == 0 && inFlight == 0 && !isConnected }

    /// Whether it may send at all.
    var mayWork: Bool { !isBlocked && !settings.isPaused && gateway != nil }

    /// Whether its gateway cannot connect to APNs.
    var isDisconnected: Bool {
        if case .unreachable = gateway?.state { true } else { false }
    }

    /// Whether APNs answers, as far as its gateway knows. While it does not, nothing is leased.
    func canReachAPNs(now: ContinuousClock.Instant) -> Bool { !isDisconnected && circuit?.isOpen(now: now) != true }

    /// How many pushes its gateway takes soon, as far as APNs' answers allow.
    func outlet(now: ContinuousClock.Instant) -> Int {
        guard let gateway, let circuit, !circuit.isClosed else { return .max }
        // Enough for the pushes that each answer allows.
        return max(1, circuit.room(of: gateway, now: now)) * 2
    }

    /// How many recipients it is worth to hold.
    func stock(now: ContinuousClock.Instant) -> Int {
        max(outlet(now: now), Self.leastStock + (circuit?.refusedCount ?? 0))
    }

    /// During an outage one push at a time tries. If only one were held, it could be one that APNs always refuses; with
    /// this many, another one can try. Those that were refused during the outage come on top: they may be the oldest.
    private static let leastStock = 200

    /// What a job is sent over.
    func gateway(for job: HeldJob) -> (any PushGateway)? {
        job.claim.message.isBroadcast ? broadcastGateway ?? gateway : gateway
    }

    /// The gateways that its pushes go over.
    func eachGateway(_ body: (ObjectIdentifier) -> Void) {
        if let gateway { body(ObjectIdentifier(gateway)) }
        if let broadcastGateway { body(ObjectIdentifier(broadcastGateway)) }
    }

    /// What is known of APNs as it is reached over one of its gateways; nil for a gateway that it uses no more.
    func circuit(of gateway: any PushGateway) -> Circuit? {
        if self.gateway === gateway { return circuit }
        return broadcastGateway === gateway ? broadcastCircuit : nil
    }

    /// How long a job has to wait because the host for broadcasts is out of reach while the one for devices is not; nil
    /// if it need not wait.
    func delay(of job: HeldJob, now: ContinuousClock.Instant) -> Duration? {
        guard job.claim.message.isBroadcast, let broadcastGateway else { return nil }
        if case .unreachable(let outage) = broadcastGateway.state {
            return max(now.duration(to: outage.nextAttempt), .seconds(1))
        }
        guard let broadcastCircuit, broadcastCircuit.isOpen(now: now) else { return nil }
        return broadcastCircuit.nextTry.map { max(now.duration(to: $0), .seconds(1)) }
    }

    /// How many pushes its connections take now. Requests more connections if there is no room left and jobs wait.
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

    /// How long a payload of a message may be when it is sent to a device.
    func maximumPayloadBytes(of message: StoredMessage) -> Int {
        let maximum = message.pushType.maximumPayloadBytes
        return settings.gateway == .binary ? min(maximum, BinaryCommand.framed.maximumPayloadBytes) : maximum
    }

    /// The message of a job in the form in which it is sent.
    func push(for job: HeldJob) -> PreparedPush { messages.push(for: job.claim.message, settings) }

    /// Learns how large the jobs of a lane are.
    func noteSize(of claim: ClaimedJob) {
        let count = Double(claim.deviceIDs.count)
        if let campaign = campaigns[claim.lane] {
            campaign.jobSize += (count - campaign.jobSize) / 8
        } else {
            let lane = Int(claim.lane.peer.rawValue)
            sharedJobSize[lane] += (count - sharedJobSize[lane]) / 8
        }
    }

    /// Lets a job be sent, or be sent again.
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
    /// own go first while it has room: they have one recipient each.
    func sendableJob(in lane: Lane, _ choice: JobChoice = .oldest) -> HeldJob? {
        if !lane.isShared { return campaigns[lane]?.jobs.next(choice, circuit) }
        let lane = Int(lane.rawValue)
        if !broadcasts[lane].isEmpty, broadcastGateway?.freeSlots ?? 0 > 0, let job = broadcasts[lane].next() {
            return job
        }
        return lanes[lane].next(choice, circuit)
    }

    /// Which jobs may be sent from, as far as APNs takes pushes for devices at present.
    func jobChoice(now: ContinuousClock.Instant) -> JobChoice {
        guard let circuit, !circuit.isClosed else { return .oldest }
        let mayTryRefused = circuit.nextTry == nil || circuit.mayTryRefused(now: now) && !hasUntriedJobs
        return mayTryRefused ? .untriedFirst(circuit.end) : .untriedOnly(circuit.end)
    }

    /// Whether jobs for devices could be sent now that APNs has not refused before.
    private var hasUntriedJobs: Bool {
        lanes.contains { $0.untried(.oldest, circuit) != nil }
            || Lane.shared.contains {
                campaigns.ready(asUrgentAs: $0).contains { $0.jobs.untried(.oldest, circuit) != nil }
            }
    }

    /// Whether jobs are held that may have somebody to send to, in `lane` or in any.
    func hasJobs(in lane: Lane) -> Bool {
        !lanes[Int(lane.rawValue)].isEmpty || !broadcasts[Int(lane.rawValue)].isEmpty
            || campaigns.hasJobs(asUrgentAs: lane)
    }
    var hasJobs: Bool { hasJobsForDevices || broadcasts.contains { !$0.isEmpty } }
    private var hasJobsForDevices: Bool { hasSharedJobs || campaigns.hasJobs }
    private var hasSharedJobs: Bool { lanes.contains { !$0.isEmpty } }

    /// Recipients held and not sent to: of all lanes, of those that all share, or those that are sent to before what
    /// comes into `lane` now.
    var unsent: Int { sharedUnsent + campaigns.unsent }
    var sharedUnsent: Int { lanes.reduce(0) { $0 + $1.unsent } + broadcasts.reduce(0) { $0 + $1.unsent } }
    func unsent(before lane: Lane) -> Int {
        if let campaign = campaigns[lane] { return campaign.jobs.unsent }
        return (0...Int(lane.peer.rawValue)).reduce(0) { $0 + lanes[$1].unsent + broadcasts[$1].unsent }
    }

    /// Notes that a job is held, or no more.
    func noteHeld(_ job: HeldJob, count: Int) {
        heldJobs += count
        campaigns[job.claim.lane]?.heldJobs += count
    }

    /// Before a poll: nobody is known to wait.
    func forgetStock() {
        hasMoreWaiting = false
        campaigns.forgetStock()
    }

    /// The same before a poll of the lanes that all share of some queues alone.
    /// - Parameters:
    ///   - found: the queues in which it found jobs.
    ///   - coversAll: whether it came to the end of `ranges`.
    func forgetStock(before found: Set<Int32>, within ranges: [QueueRange], coversAll: Bool) {
        if found.contains(id) { return forgetStock() }
        // What it did not find is no reason to poll again at once.
        if hasMoreWaiting, coversAll, ranges.contains(where: { $0.contains(id) }) { hasMoreWaiting = false }
    }

    /// A poll found jobs in a lane. With fewer recipients held than `lowWater`, they are worth claiming.
    func noteWaiting(in lane: Lane, lowWater: Int) {
        if let campaign = campaigns[lane] {
            campaigns.noteWaiting(in: campaign, lowWater: lowWater)
        } else {
            (hasMoreWaiting, self.lowWater) = (true, lowWater)
        }
    }

    /// Whether jobs wait that it could soon send; of a campaign's own lane, whether that is new.
    func takeRunsLow() -> Bool {
        let ofCampaigns = campaigns.takeRunsLow()
        return mayWork && (ofCampaigns || hasMoreWaiting && sharedUnsent < lowWater)
    }

    /// Whether it, its tenant, or a campaign of it has a rate limit.
    var isPaced: Bool { limit.rate != nil || tenant.limit.rate != nil || campaigns.isPaced }

    /// Pushes per second that its limits allow; nil: no limit.
    var maximumRate: Double? {
        guard let rate = limit.rate, let ofTenant = tenant.limit.rate else { return limit.rate ?? tenant.limit.rate }
        return min(rate, ofTenant)
    }

    /// The permits that it sends with: its own, or those that its tenant has for all queues without a limit of their
    /// own. One of its own is also one of its tenant's, so that a worker that has it can use it.
    var permits: RateLimit {
        get { limit.rate == nil ? tenant.limit : limit }
        set { if limit.rate == nil { tenant.limit = newValue } else { limit = newValue } }
    }

    /// Of which limit they are.
    var permitOwner: RateLimitOwner {
        limit.rate == nil ? .tenant(settings.tenantID) : .queue(id, ofTenant: settings.tenantID)
    }

    /// How many permits it could use soon. Without a connection it takes none: they would lapse, and others could send
    /// with them.
    func demandForPermits(now: ContinuousClock.Instant) -> Int {
        isConnected ? min(unsentWithoutOwnRate, outlet(now: now)) : 0
    }

    /// The pushes that its rate limits allow now, of all lanes.
    func allowance(at now: ContinuousClock.Instant) -> Int {
        guard !campaigns.isEmpty else { return sharedAllowance(at: now) }
        let (count, hasUnpaced) = campaigns.allowance(at: now, lapsed: &figures.counts.permitsLapsed)
        guard hasUnpaced || hasSharedJobs || broadcasts.contains(where: { !$0.isEmpty }) else { return count }
        let (sum, isUnlimited) = count.addingReportingOverflow(sharedAllowance(at: now))
        return isUnlimited ? .max : sum
    }

    /// Those of the lanes that all share.
    func sharedAllowance(at now: ContinuousClock.Instant) -> Int {
        let allowance = limit.rate == nil ? tenant.limit.allowance(at: now) : limit.allowance(at: now)
        if isPaced { figures.counts.permitsLapsed += limit.takeLapsed() + tenant.limit.takeLapsed() }
        return allowance
    }

    /// When the next permit may be used of those that were granted for what cannot be sent yet; nil if there is none.
    var nextPermit: ContinuousClock.Instant? {
        let ofCampaigns = campaigns.nextPermit
        guard maximumRate != nil, unsentWithoutOwnRate > 0, let next = permits.nextPermit else { return ofCampaigns }
        return min(ofCampaigns ?? next, next)
    }

    /// Counts pushes that were sent.
    func noteSent(_ count: Int, at now: ContinuousClock.Instant) { sentSinceMeasured += count }
}
