import APNs
import PostgresStore
import QueueCore

/// What the engine keeps for one queue while it works for it: settings, held jobs by lane, permits, its share.
///
/// Belongs to the engine's event loop.
final class QueueState {
    let id: Int32
    var settings: QueueSettings
    /// The way to APNs with the queue's credential; nil while the queue has no usable credential.
    var route: GatewayRoute?
    /// The way to the host for broadcasts alone; nil where there is no such host.
    var broadcastRoute: GatewayRoute?
    /// What APNs says about the queue's key.
    var unrelatedKey = UnrelatedKey()
    /// What APNs says about the queue's topics.
    var topicRefusals = TopicRefusals()
    var returnedUpdates = ReturnedUpdates()
    let tenant: TenantShare
    /// The queue's place in the order among the tenant's queues.
    var turn: FairShare.Turn
    /// The lanes that all jobs share.
    var shared = SharedLanes()
    /// The lanes of single campaigns.
    var campaigns = CampaignLanes()
    /// Determines which of several lanes of the same urgency comes first.
    var rotation = 0
    /// Determines when a push that was lost before comes first.
    private var turnsWithNothingInFlight = 0
    /// Whether the dispatcher has the queue, because jobs of it are held.
    var isActive = false
    /// The queue's place in the dispatcher.
    var place = 0
    /// Whether the queue waits in the dispatcher.
    var isParked = false
    /// Until when the queue waits for a permit.
    var throttledUntil: ContinuousClock.Instant?
    /// The queue's counts. All queues beyond the limit of those with metrics of their own share one object.
    let figures: QueueFigures
    /// What the next heartbeat shows of the queue.
    var throughput = QueueThroughput()
    /// The number of requests in flight.
    var inFlight = 0
    /// How many of the requests in flight wait only for the grace of the binary interface.
    var inSilence = 0
    /// The number of its jobs that this worker holds, in whatever state.
    private(set) var heldJobs = 0
    private(set) var updates = HeldUpdates()
    /// Set while this worker does not send for the queue, whatever its settings say: see ``ServedQueues``.
    var isBlocked = false

    /// The queue's own limit. Each of its permits is also a permit of the tenant.
    var limit: RateLimit

    /// When the settings were read.
    var readAt: ContinuousClock.Instant
    /// When there was last work for the queue.
    var lastWanted: ContinuousClock.Instant

    var messages = PreparedMessages()
    /// The number of recipients sent to since `sendRate` was last measured.
    var sentSinceMeasured = 0
    /// What was sent recently, in recipients per second.
    var sendRate = 0.0

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

    // MARK: Messages

    /// The maximum length of a message's payload when it is sent to a device of this queue.
    func maximumPayloadBytes(of message: StoredMessage) -> Int {
        let maximum = message.pushType.maximumPayloadBytes
        return settings.gateway == .binary ? min(maximum, BinaryCommand.framed.maximumPayloadBytes) : maximum
    }

    /// The message of a job in the form in which it is sent.
    func push(for job: HeldJob) -> PreparedPush { messages.push(for: job.claim.message, settings) }

    // MARK: Jobs

    /// Updates the average job size of a lane.
    func noteSize(of claim: ClaimedJob) {
        let count = claim.deviceIDs.count
        if let campaign = campaigns[claim.lane] {
            campaign.jobSize += (Double(count) - campaign.jobSize) / 8
        } else {
            shared.noteSize(count, of: claim.lane)
        }
    }

    /// Adds a job, to be sent or sent again.
    func add(_ job: HeldJob) {
        if let campaign = campaigns[job.claim.lane] { return campaigns.add(job, to: campaign) }
        shared.add(job, toBroadcastHost: broadcastRoute != nil && job.claim.message.isBroadcast)
    }

    /// The next job to send from in `lane`: the oldest that has recipients to send to. Broadcasts to a host of their
    /// own go first while that host takes any: they have one recipient each. While it takes none, as after an outage,
    /// pushes to devices do not wait behind them.
    func sendableJob(in lane: Lane, _ choice: JobChoice = .oldest, now: ContinuousClock.Instant) -> HeldJob? {
        if !lane.isShared { return campaigns[lane]?.jobs.next(choice, route?.circuit) }
        if let broadcastRoute, min(broadcastRoute.gateway.freeSlots, broadcastRoute.circuit.room(now: now)) > 0,
            let job = shared.nextBroadcast(in: lane)
        {
            return job
        }
        return shared.next(in: lane, choice, route?.circuit)
    }

    /// Which jobs of each lane are sent from in this turn, as far as APNs currently accepts pushes for devices.
    ///
    /// If nothing is in flight, pushes that were never lost come first: one that was lost before may end the
    /// connection. With a rate, nothing is in flight in nearly every turn, so the oldest push has its turn all the
    /// same.
    func nextJobChoice(now: ContinuousClock.Instant) -> JobChoice {
        guard let route else { return .oldest }
        guard route.circuit.isClosed else { return route.jobChoice(now: now) { hasUntriedJobs(route.circuit) } }
        guard inFlight == 0 else { return .oldest }
        turnsWithNothingInFlight &+= 1
        return turnsWithNothingInFlight.isMultiple(of: Self.turnsForOldest) ? .oldest : .unlostFirst
    }

    /// Odd, so that both kinds get the oldest job in turn if urgent and other pushes alternate.
    private static let turnsForOldest = 7

    /// Whether there are sendable jobs for devices that APNs has not refused before.
    private func hasUntriedJobs(_ circuit: Circuit) -> Bool {
        shared.hasUntriedJobs(circuit)
            || Lane.shared.contains {
                campaigns.ready(asUrgentAs: $0).contains { $0.jobs.untried(.oldest, circuit) != nil }
            }
    }

    /// Whether this worker holds jobs that may have recipients to send to, in `lane` or in any lane.
    func hasJobs(in lane: Lane) -> Bool { shared.hasJobs(in: lane) || campaigns.hasJobs(asUrgentAs: lane) }
    var hasJobs: Bool { hasJobsForDevices || shared.hasBroadcasts }
    var hasJobsForDevices: Bool { shared.hasJobsForDevices || campaigns.hasJobs }

    /// The recipients held and not sent to: of all lanes, or those that are sent to before what arrives in `lane` now.
    var unsent: Int { shared.unsent + campaigns.unsent }
    func unsent(before lane: Lane) -> Int { campaigns[lane]?.jobs.unsent ?? shared.unsent(before: lane) }

    /// Notes that a job is held, or no longer held.
    func noteHeld(_ job: HeldJob, count: Int) {
        heldJobs += count
        campaigns[job.claim.lane]?.heldJobs += count
        if job.isOfLiveActivities { updates.note(job, isHeld: count > 0) }
    }

    /// Called before a poll: forgets that jobs wait.
    func forgetStock() {
        shared.forgetStock()
        campaigns.forgetStock()
    }

    /// The same for a poll of only some queues, in their shared lanes.
    /// - Parameters:
    ///   - found: the queues in which the poll found jobs.
    ///   - coversAll: whether the poll reached the end of `ranges`.
    func forgetStock(before found: Set<Int32>, within ranges: [QueueRange], coversAll: Bool) {
        if found.contains(id) { return forgetStock() }
        // The poll did not find jobs of this queue, so there is no reason to poll again at once.
        if coversAll, ranges.contains(where: { $0.contains(id) }) { shared.forgetStock() }
    }

    /// Notes that a poll found jobs in a lane. They are worth claiming while fewer recipients than `lowWater` are held.
    func noteWaiting(in lane: Lane, lowWater: Int) {
        if let campaign = campaigns[lane] {
            campaigns.noteWaiting(in: campaign, lowWater: lowWater)
        } else {
            shared.noteWaiting(in: lane, lowWater: lowWater)
        }
    }

    /// Called before a claim from a lane: forgets that jobs wait there. ``noteMoreWaiting(in:)`` follows if the claim
    /// leaves any.
    func forgetStock(in lane: Lane) {
        if let campaign = campaigns[lane] {
            campaign.hasMoreWaiting = false
        } else {
            shared.forgetStock(in: lane)
        }
    }

    /// Notes that a claim has left jobs in a lane. They are worth claiming as what the last poll found there was.
    func noteMoreWaiting(in lane: Lane) {
        if let campaign = campaigns[lane] {
            campaign.hasMoreWaiting = true
        } else {
            shared.noteWaiting(in: lane)
        }
    }

    /// Whether the queue could soon send more than it holds and jobs wait. For campaigns' own lanes, whether that is
    /// new.
    func takeRunsLow() -> Bool {
        let ofCampaigns = campaigns.takeRunsLow()
        return mayWork && (ofCampaigns || shared.runsLow)
    }

    // MARK: Rate limits

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
        guard hasUnpaced || shared.hasJobsForDevices || shared.hasBroadcasts else { return count }
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
