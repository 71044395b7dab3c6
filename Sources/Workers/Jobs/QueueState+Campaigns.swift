import PostgresStore
import QueueCore

/// The lanes that are one campaign's own, beside those that all jobs of the queue share.
extension QueueState {
    /// Whether it is known what a lane's jobs may be sent with: a poll says of a campaign's own lane what its rate is.
    func knows(_ lane: Lane) -> Bool { lane.isShared || campaigns[lane] != nil }

    /// Of which limit the permits of a campaign are. Each of them is also one of its queue's and its tenant's.
    func permitOwner(of campaign: CampaignLane) -> RateLimitOwner {
        .campaign(campaign.campaignID, ofQueue: id, ofTenant: settings.tenantID)
    }

    /// Pushes per second that the limits of a lane allow; nil: no limit.
    func maximumRate(of lane: Lane) -> Double? {
        guard let rate = campaigns[lane]?.limit.rate else { return maximumRate }
        return min(rate, maximumRate ?? rate)
    }

    /// Recipients of a job of a lane, on average.
    func jobSize(of lane: Lane) -> Double {
        campaigns[lane]?.jobSize ?? sharedJobSize[Int(lane.peer.rawValue)]
    }

    /// The lanes in the order in which a turn looks for pushes: the most urgent first, and of those that are as urgent,
    /// each turn another one. If the newest of what waits is to try alone, the least urgent come first.
    func lanesOfTurn(isUrgent: Bool, _ choice: JobChoice) -> [Lane] {
        guard choice != .untriedOnly(.newest) else {
            return isUrgent ? [] : lanesOfTurn(isUrgent: false, .oldest).reversed()
        }
        guard !campaigns.isEmpty else { return isUrgent ? Self.urgentLanes : Lane.shared }
        rotation &+= 1
        return (isUrgent ? Self.urgentLanes : Lane.shared).flatMap { shared in
            let lanes = [shared] + campaigns.ready(asUrgentAs: shared).lazy.map(\.lane)
            let first = rotation % lanes.count
            return lanes[first...] + lanes[..<first]
        }
    }

    private static let urgentLanes = [Lane.urgent]

    /// The pushes that the limits of a lane allow now.
    func allowance(of lane: Lane, at now: ContinuousClock.Instant) -> Int {
        guard let campaign = campaigns[lane], campaign.limit.rate != nil else { return sharedAllowance(at: now) }
        let allowance = campaign.limit.allowance(at: now)
        figures.counts.permitsLapsed += campaign.limit.takeLapsed()
        return allowance
    }

    /// Uses the permits of pushes that were sent from a lane.
    func usePermits(_ count: Int, in lane: Lane, at now: ContinuousClock.Instant) {
        let campaign = campaigns[lane]
        if let campaign, campaign.limit.rate != nil { return campaigns.usePermits(count, of: campaign, at: now) }
        if let campaign { campaigns.noteSent(from: campaign) }
        if limit.rate == nil { tenant.limit.use(count, at: now) } else { limit.use(count, at: now) }
    }

    /// Recipients that are sent with the permits of the queue.
    var unsentWithoutOwnRate: Int { sharedUnsent + campaigns.unsentWithoutRate }

    /// Whether there are recipients for which no permits were taken, as far as that may have changed since this was
    /// last asked. Without a connection none are taken, and what has changed is kept until there is one.
    func takeLackOfPermits() -> Bool {
        guard isConnected else { return false }
        let ofCampaigns = campaigns.takeLackOfPermits()
        return ofCampaigns || maximumRate != nil && permits.permitsLeft < unsentWithoutOwnRate
    }
}
