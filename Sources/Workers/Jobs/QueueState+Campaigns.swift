import PostgresStore
import QueueCore

/// The lanes that are one campaign's own, beside those that all jobs of the queue share.
extension QueueState {
    /// A lane without jobs is forgotten after this time without work.
    private static let forgottenAfter = Duration.seconds(30)

    /// Notes which campaign's a lane is, and its rate.
    func learn(_ own: ReadyWork.OwnLane, now: ContinuousClock.Instant) {
        if let known = campaignLane(own.place.lane) {
            if known.limit.rate != own.rate { known.jobSize = min(max((own.rate ?? 250) * 2, 1), 500) }
            known.limit.change(to: own.rate, now: now)
            known.lastWanted = now
            return
        }
        campaignLanes.removeAll { $0.heldJobs == 0 && $0.lastWanted + Self.forgottenAfter < now }
        campaignLanes.append(CampaignLane(own.place.lane, of: own.campaignID, rate: own.rate, now: now))
        campaignLanes.sort { $0.lane.peer.rawValue < $1.lane.peer.rawValue }
    }

    func campaignLane(_ lane: Lane) -> CampaignLane? {
        lane.isShared ? nil : campaignLanes.first { $0.lane == lane }
    }

    /// Whether it is known what a lane's jobs may be sent with: a poll says of a campaign's own lane what its rate is.
    func knows(_ lane: Lane) -> Bool { lane.isShared || campaignLane(lane) != nil }

    /// Those with a rate: the others use the permits of the queue.
    var pacedCampaigns: some Sequence<CampaignLane> { campaignLanes.lazy.filter { $0.limit.rate != nil } }

    /// Of which limit the permits of a campaign are. Each of them is also one of its queue's and its tenant's.
    func permitOwner(of campaign: CampaignLane) -> RateLimitOwner {
        .campaign(campaign.campaignID, ofQueue: id, ofTenant: settings.tenantID)
    }

    /// How many permits a campaign could use soon.
    func demandForPermits(of campaign: CampaignLane, now: ContinuousClock.Instant) -> Int {
        isConnected ? min(campaign.jobs.unsent, stock(now: now)) : 0
    }

    /// Pushes per second that the limits of a lane allow; nil: no limit.
    func maximumRate(of lane: Lane) -> Double? {
        guard let rate = campaignLane(lane)?.limit.rate else { return maximumRate }
        return min(rate, maximumRate ?? rate)
    }

    /// Recipients of a job of a lane, on average.
    func jobSize(of lane: Lane) -> Double {
        campaignLane(lane)?.jobSize ?? sharedJobSize[Int(lane.peer.rawValue)]
    }

    /// The lanes in the order in which a turn looks for pushes: the most urgent first, and of those that are as urgent,
    /// each turn another one.
    func lanesOfTurn(isUrgent: Bool) -> [Lane] {
        guard !campaignLanes.isEmpty else { return isUrgent ? Self.urgentLanes : Lane.shared }
        rotation &+= 1
        return (isUrgent ? Self.urgentLanes : Lane.shared).flatMap { shared in
            let lanes = [shared] + campaignLanes.lazy.filter { $0.lane.peer == shared }.map(\.lane)
            let first = rotation % lanes.count
            return lanes[first...] + lanes[..<first]
        }
    }

    private static let urgentLanes = [Lane.urgent]

    /// The pushes that the limits of a lane allow now.
    func allowance(of lane: Lane, at now: ContinuousClock.Instant) -> Int {
        guard let campaign = campaignLane(lane), campaign.limit.rate != nil else { return sharedAllowance(at: now) }
        let allowance = campaign.limit.allowance(at: now)
        figures.counts.permitsLapsed += campaign.limit.takeLapsed()
        return allowance
    }

    /// Uses the permits of pushes that were sent from a lane.
    func usePermits(_ count: Int, in lane: Lane, at now: ContinuousClock.Instant) {
        guard let campaign = campaignLane(lane), campaign.limit.rate != nil else {
            if limit.rate == nil { tenant.limit.use(count, at: now) } else { limit.use(count, at: now) }
            return
        }
        campaign.limit.use(count, at: now)
    }

    /// The limits that something waits for, and how many recipients wait for each.
    func eachLimitInUse(_ body: (RateLimit, _ unsent: Int) -> Void) {
        for campaign in pacedCampaigns where campaign.jobs.unsent > 0 { body(campaign.limit, campaign.jobs.unsent) }
        let unsent = unsentWithoutOwnRate
        if maximumRate != nil, unsent > 0 { body(permits, unsent) }
    }

    /// Recipients that are sent with the permits of the queue.
    var unsentWithoutOwnRate: Int {
        sharedUnsent + campaignLanes.reduce(0) { $0 + ($1.limit.rate == nil ? $1.jobs.unsent : 0) }
    }
}
