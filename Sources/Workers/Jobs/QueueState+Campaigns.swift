import PostgresStore
import QueueCore

/// The lanes of single campaigns, beside the lanes that all jobs of the queue share.
extension QueueState {
    /// Whether the rate of a lane is known. A poll reports the rate of a campaign's own lane.
    func knows(_ lane: Lane) -> Bool { lane.isShared || campaigns[lane] != nil }

    /// The limit from which a campaign takes permits. Each permit is also one of its queue's and its tenant's limit.
    func permitOwner(of campaign: CampaignLane) -> RateLimitOwner {
        .campaign(campaign.campaignID, ofQueue: id, ofTenant: settings.tenantID)
    }

    /// The pushes per second that the limits allow a lane; nil if there is no limit. Campaigns whose rates add up to
    /// more than the rate of their queue get a part of that. A worker that claimed for the whole rate of each would
    /// give most of these jobs back unsent.
    func maximumRate(of lane: Lane) -> Double? {
        guard let rate = campaigns[lane]?.limit.rate, rate > 0 else { return maximumRate }
        return rate * min(1, (maximumRate ?? .infinity) / campaigns.sumOfRates)
    }

    /// The average number of recipients of a lane's jobs.
    func jobSize(of lane: Lane) -> Double {
        campaigns[lane]?.jobSize ?? shared.jobSize(of: lane)
    }

    /// The lanes in the order in which a turn looks for pushes. The most urgent come first, and lanes of the same
    /// urgency rotate from turn to turn. If only the newest untried push may try, the least urgent lanes come first.
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

    /// The number of pushes that the limits of a lane allow now.
    func allowance(of lane: Lane, at now: ContinuousClock.Instant) -> Int {
        guard let campaign = campaigns[lane], campaign.limit.rate != nil else { return sharedAllowance(at: now) }
        let allowance = campaign.limit.allowance(at: now)
        figures.counts.permitsLapsed += campaign.limit.takeLapsed()
        return allowance
    }

    /// Uses permits for pushes that were sent from a lane.
    func usePermits(_ count: Int, in lane: Lane, at now: ContinuousClock.Instant) {
        let campaign = campaigns[lane]
        if let campaign, campaign.limit.rate != nil { return campaigns.usePermits(count, of: campaign, at: now) }
        if let campaign { campaigns.noteSent(from: campaign) }
        if limit.rate == nil { tenant.limit.use(count, at: now) } else { limit.use(count, at: now) }
    }

    /// The number of unsent recipients that use the permits of the queue.
    var unsentWithoutOwnRate: Int { shared.unsent + campaigns.unsentWithoutRate }

    /// Whether there are recipients for which no permits were taken, as far as that may have changed since the last
    /// call. Without a connection no permits are taken, and changes are kept until there is one.
    func takeLackOfPermits() -> Bool {
        guard isConnected else { return false }
        let ofCampaigns = campaigns.takeLackOfPermits()
        return ofCampaigns || maximumRate != nil && permits.permitsLeft < unsentWithoutOwnRate
    }
}
