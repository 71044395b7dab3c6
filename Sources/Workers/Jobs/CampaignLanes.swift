import PostgresStore
import QueueCore

/// The lanes of a queue that are one campaign's own: of thousands of campaigns perhaps, each with its own rate.
///
/// A lane that has jobs and no permit is set aside until its next permit is due, or until it is woken with others. So a
/// turn costs what may be sent in it, and not what waits for a permit.
struct CampaignLanes {
    /// A lane without jobs is forgotten after this time without work.
    private static let forgottenAfter = Duration.seconds(30)
    /// How often those are looked for.
    private static let cleanUpAfter = Duration.seconds(1)

    private var known: [Int32: CampaignLane] = [:]
    /// Those that have jobs, and permits as far as is known; by urgency.
    private var ready = [[CampaignLane]](repeating: [], count: Lane.shared.count)
    /// Those that have jobs, and a permit that is due later.
    private var throttled = Throttled<CampaignLane>()
    /// How many have jobs, set aside or not; by urgency.
    private var withJobs = [Int](repeating: 0, count: Lane.shared.count)
    /// Those whose recipients or permits have changed since ``takeLackOfPermits()``.
    private var changed: [CampaignLane] = []
    /// Whether one of them has begun to hold less than it could soon send while more of it waits.
    private var runsLow = false
    private var cleanedUpAt: ContinuousClock.Instant?

    var isEmpty: Bool { known.isEmpty }
    /// Whether one of them has a rate of its own.
    var isPaced: Bool { known.values.contains { $0.limit.rate != nil } }
    /// Those with a rate: the others use the permits of the queue.
    var paced: some Sequence<CampaignLane> { known.values.lazy.filter { $0.limit.rate != nil } }

    subscript(lane: Lane) -> CampaignLane? { lane.isShared ? nil : known[lane.rawValue] }

    /// Notes which campaign's a lane is, and its rate.
    mutating func learn(_ own: ReadyWork.OwnLane, now: ContinuousClock.Instant) {
        if let lane = self[own.place.lane] {
            lane.lastWanted = now
            guard lane.limit.rate != own.rate else { return }
            lane.jobSize = CampaignLane.expectedJobSize(at: own.rate ?? 250)
            lane.limit.change(to: own.rate, now: now)
            noteChange(of: lane)
            return wake(lane)
        }
        cleanUp(now: now)
        known[own.place.lane.rawValue] = CampaignLane(own.place.lane, of: own.campaignID, rate: own.rate, now: now)
    }

    private mutating func cleanUp(now: ContinuousClock.Instant) {
        if let cleanedUpAt, now < cleanedUpAt + Self.cleanUpAfter { return }
        cleanedUpAt = now
        known = known.filter { _, lane in
            lane.heldJobs > 0 || lane.hasJobs || lane.lastWanted + Self.forgottenAfter >= now
        }
    }

    // MARK: Jobs

    /// Lets a job of one of them be sent, or be sent again.
    mutating func add(_ job: HeldJob, to lane: CampaignLane) {
        lane.jobs.add(job)
        noteChange(of: lane)
        guard !lane.hasJobs else { return }
        lane.hasJobs = true
        withJobs[lane.urgency] += 1
        wake(lane)
    }

    /// Whether jobs are held that may have somebody to send to: of all, or as urgent as a lane that all share.
    var hasJobs: Bool { withJobs.contains { $0 > 0 } }
    func hasJobs(asUrgentAs lane: Lane) -> Bool { withJobs[Int(lane.rawValue)] > 0 }

    /// Recipients held and not sent to: of all, or of those without a rate of their own. These are never set aside.
    var unsent: Int { known.values.reduce(0) { $0 + ($1.hasJobs ? $1.jobs.unsent : 0) } }
    var unsentWithoutRate: Int {
        ready.reduce(0) { $0 + $1.reduce(0) { $0 + ($1.limit.rate == nil ? $1.jobs.unsent : 0) } }
    }

    /// Before a poll: nobody is known to wait. Lanes whose jobs were all given back have none from now on.
    mutating func forgetStock() {
        for lane in known.values {
            lane.hasMoreWaiting = false
            if lane.hasJobs, lane.jobs.next() == nil { noteEmpty(lane) }
        }
    }

    /// A poll found jobs in a lane. With fewer recipients held than `lowWater`, they are worth claiming.
    mutating func noteWaiting(in lane: CampaignLane, lowWater: Int) {
        (lane.hasMoreWaiting, lane.lowWater) = (true, lowWater)
    }

    /// Whether one of them runs low since this was last asked: of each lane it is said once after each poll.
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

    /// A lane may have a permit that it had not.
    mutating func wake(_ lane: CampaignLane) {
        guard lane.hasJobs, !lane.isReady else { return }
        lane.isReady = true
        ready[lane.urgency].append(lane)
    }

    /// Those that may be sent from, and are as urgent as a lane that all share.
    func ready(asUrgentAs lane: Lane) -> [CampaignLane] { ready[Int(lane.rawValue)] }

    /// The pushes that their own rates allow now, and whether there are jobs without one. Sets aside those that have no
    /// permit, and adds the permits that have lapsed to `lapsed`.
    mutating func allowance(at now: ContinuousClock.Instant, lapsed: inout Int) -> (count: Int, hasUnpaced: Bool) {
        while let lane = throttled.takeNext(now: now) { wake(lane) }
        var (count, hasUnpaced) = (0, false)
        for urgency in ready.indices where !ready[urgency].isEmpty {
            // Most turns find all of them as they were.
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

    /// The same for one that is ready; nil if it has jobs and no rate of its own.
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
        // By rounding, one that is due may not be there yet.
        if let next = lane.limit.nextPermit { throttled.add(lane, until: max(next, now + .milliseconds(1))) }
        return 0
    }

    /// When the next permit is due of those that are set aside; nil if none has one.
    var nextPermit: ContinuousClock.Instant? { throttled.firstTime }

    /// Uses permits of a lane for pushes that were sent.
    mutating func usePermits(_ count: Int, of lane: CampaignLane, at now: ContinuousClock.Instant) {
        lane.limit.use(count, at: now)
        noteSent(from: lane)
    }

    /// Notes that there are fewer recipients and permits than before.
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

    /// Whether one of those that have changed since this was last asked has fewer permits than recipients.
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
