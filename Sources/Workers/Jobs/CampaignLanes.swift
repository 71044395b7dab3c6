import PostgresStore
import QueueCore

/// The lanes of a queue that belong to one campaign each. There may be thousands, each with a rate of its own.
///
/// A lane that has jobs but no permit is throttled until its next permit is due, or until it is woken because it may
/// have got one. So the cost of a turn depends on what may be sent in it, not on what waits for a permit.
struct CampaignLanes {
    /// The time without work after which a lane without jobs is forgotten.
    private static let forgottenAfter = Duration.seconds(30)
    /// How often lanes to forget are looked for.
    private static let cleanUpAfter = Duration.seconds(1)

    private var known: [Int32: CampaignLane] = [:]
    /// Lanes that have jobs, and permits as far as is known, by urgency.
    private var ready = [[CampaignLane]](repeating: [], count: Lane.shared.count)
    /// Lanes that have jobs, but whose next permit is due later.
    private var throttled = ThrottledSenders<CampaignLane>()
    /// The number of lanes that have jobs, throttled or not, by urgency.
    private var withJobs = [Int](repeating: 0, count: Lane.shared.count)
    /// Lanes whose recipients or permits have changed since the last ``takeLackOfPermits()``.
    private var changed: [CampaignLane] = []
    /// Whether a lane has begun to hold less than it could soon send, while more of its jobs wait.
    private var runsLow = false
    private var cleanedUpAt: ContinuousClock.Instant?
    /// The sum of the lanes' rates.
    private(set) var sumOfRates = 0.0

    var isEmpty: Bool { known.isEmpty }
    /// Whether a lane has a rate.
    var isPaced: Bool { known.values.contains { $0.limit.rate != nil } }
    /// The lanes with a rate. The others use the permits of the queue.
    var paced: some Sequence<CampaignLane> { known.values.lazy.filter { $0.limit.rate != nil } }

    subscript(lane: Lane) -> CampaignLane? { lane.isShared ? nil : known[lane.rawValue] }

    /// Notes the campaign and the rate of a lane.
    mutating func learn(_ own: ReadyWork.OwnLane, now: ContinuousClock.Instant) {
        if let lane = self[own.place.lane] {
            lane.lastWanted = now
            guard lane.limit.rate != own.rate else { return }
            lane.jobSize = CampaignLane.expectedJobSize(at: own.rate)
            sumOfRates += (own.rate ?? 0) - (lane.limit.rate ?? 0)
            lane.limit.change(to: own.rate, now: now)
            noteChange(of: lane)
            return wake(lane)
        }
        cleanUp(now: now)
        known[own.place.lane.rawValue] = CampaignLane(own.place.lane, of: own.campaignID, rate: own.rate, now: now)
        sumOfRates += own.rate ?? 0
    }

    private mutating func cleanUp(now: ContinuousClock.Instant) {
        if let cleanedUpAt, now < cleanedUpAt + Self.cleanUpAfter { return }
        cleanedUpAt = now
        known = known.filter { _, lane in
            lane.heldJobs > 0 || lane.hasJobs || lane.lastWanted + Self.forgottenAfter >= now
        }
        sumOfRates = paced.reduce(0) { $0 + ($1.limit.rate ?? 0) }
    }

    // MARK: Jobs

    /// Adds a job to a lane, to be sent or sent again.
    mutating func add(_ job: HeldJob, to lane: CampaignLane) {
        lane.jobs.add(job)
        noteChange(of: lane)
        guard !lane.hasJobs else { return }
        lane.hasJobs = true
        withJobs[lane.urgency] += 1
        wake(lane)
    }

    /// Whether this worker holds jobs that may have recipients to send to: in any lane, or in lanes as urgent as a
    /// shared lane.
    var hasJobs: Bool { withJobs.contains { $0 > 0 } }
    func hasJobs(asUrgentAs lane: Lane) -> Bool { withJobs[Int(lane.rawValue)] > 0 }

    /// The recipients held and not sent to: of all lanes, or of lanes without a rate, which are never throttled.
    var unsent: Int { known.values.reduce(0) { $0 + ($1.hasJobs ? $1.jobs.unsent : 0) } }
    var unsentWithoutRate: Int {
        ready.reduce(0) { $0 + $1.reduce(0) { $0 + ($1.limit.rate == nil ? $1.jobs.unsent : 0) } }
    }

    /// Called before a poll: forgets that jobs wait. Lanes whose jobs were all given back count as empty from now on.
    mutating func forgetStock() {
        for lane in known.values {
            lane.hasMoreWaiting = false
            if lane.hasJobs, lane.jobs.next() == nil { noteEmpty(lane) }
        }
    }

    /// Notes that a poll found jobs in a lane. They are worth claiming while fewer recipients than `lowWater` are held.
    mutating func noteWaiting(in lane: CampaignLane, lowWater: Int) {
        (lane.hasMoreWaiting, lane.lowWater) = (true, lowWater)
    }

    /// Whether a lane has begun to run low since the last call. Reports each lane once after each poll.
    mutating func takeRunsLow() -> Bool {
        defer { runsLow = false }
        return runsLow
    }

    private mutating func noteEmpty(_ lane: CampaignLane) {
        guard lane.hasJobs else { return }
        lane.hasJobs = false
        withJobs[lane.urgency] -= 1
    }

    // MARK: Permits

    /// Makes a lane ready again, because it may have got a permit.
    mutating func wake(_ lane: CampaignLane) {
        guard lane.hasJobs, !lane.isReady else { return }
        lane.isReady = true
        ready[lane.urgency].append(lane)
    }

    /// The lanes that may send and are as urgent as a shared lane.
    func ready(asUrgentAs lane: Lane) -> [CampaignLane] { ready[Int(lane.rawValue)] }

    /// The number of pushes that the lanes' own rates allow now, and whether lanes without a rate have jobs. Throttles
    /// the lanes that have no permit, and adds the permits that have lapsed to `lapsed`.
    mutating func allowance(at now: ContinuousClock.Instant, lapsed: inout Int) -> (count: Int, hasUnpaced: Bool) {
        while let lane = throttled.takeNext(now: now) { wake(lane) }
        var (count, hasUnpaced) = (0, false)
        for urgency in ready.indices where !ready[urgency].isEmpty {
            // Most turns throttle no lane.
            var hasGone = false
            for lane in ready[urgency] {
                let ofLane = allowance(of: lane, at: now, lapsed: &lapsed)
                hasUnpaced = hasUnpaced || ofLane == nil
                count += ofLane ?? 0
                hasGone = hasGone || !lane.isReady
            }
            if hasGone { ready[urgency].removeAll { !$0.isReady } }
        }
        return (count, hasUnpaced)
    }

    /// The number of pushes that a ready lane's own rate allows now; nil if the lane has jobs but no rate.
    private mutating func allowance(of lane: CampaignLane, at now: ContinuousClock.Instant, lapsed: inout Int) -> Int? {
        guard lane.jobs.next() != nil else {
            noteEmpty(lane)
            lane.isReady = false
            return 0
        }
        guard lane.limit.rate != nil else { return nil }
        let count = lane.limit.allowance(at: now)
        let lost = lane.limit.takeLapsed()
        lapsed += lost
        if lost > 0 { noteChange(of: lane) }
        guard count == 0 else { return count }
        lane.isReady = false
        // Because of rounding, a permit that is due may not be available yet.
        if let next = lane.limit.nextPermit { throttled.add(lane, until: max(next, now + .milliseconds(1))) }
        return 0
    }

    /// When the next permit of a throttled lane is due; nil if there is none.
    var nextPermit: ContinuousClock.Instant? { throttled.firstTime }

    /// Uses permits of a lane for pushes that were sent.
    mutating func usePermits(_ count: Int, of lane: CampaignLane, at now: ContinuousClock.Instant) {
        lane.limit.use(count, at: now)
        noteSent(from: lane)
    }

    /// Notes that a lane has fewer recipients and permits than before.
    mutating func noteSent(from lane: CampaignLane) {
        noteChange(of: lane)
        guard lane.runsLow else { return }
        runsLow = true
        lane.hasMoreWaiting = false
    }

    private mutating func noteChange(of lane: CampaignLane) {
        guard !lane.isChanged else { return }
        lane.isChanged = true
        changed.append(lane)
    }

    /// Whether a lane that has changed since the last call has fewer permits than recipients.
    mutating func takeLackOfPermits() -> Bool {
        var isLacking = false
        for lane in changed {
            lane.isChanged = false
            isLacking = isLacking || lane.limit.rate != nil && lane.limit.permitsLeft < lane.jobs.unsent
        }
        changed.removeAll(keepingCapacity: true)
        return isLacking
    }
}
