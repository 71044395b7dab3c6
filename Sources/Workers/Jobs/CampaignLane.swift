import QueueCore

/// A lane that is one campaign's own: its jobs in this worker's hands, and its rate. What waits here for permits is in
/// nobody's way.
///
/// Belongs to the engine's event loop.
final class CampaignLane: Throttleable {
    let lane: Lane
    let campaignID: Int64
    /// Its permits are also those of its queue and its tenant. Without a rate it is sent as the rest of its queue is.
    var limit: RateLimit
    /// Those with recipients to send to.
    var jobs = JobLane()
    /// Its jobs that this worker holds, whatever it does with them.
    var heldJobs = 0
    /// Recipients of a job, on the average of those claimed.
    var jobSize: Double
    /// Whether a poll found jobs that are not claimed; with fewer recipients held than this, it could soon send more.
    var hasMoreWaiting = false
    var lowWater = 0
    /// When a poll last found jobs, or jobs to be made.
    var lastWanted: ContinuousClock.Instant

    /// What ``CampaignLanes`` keeps of it, and nobody else looks at: whether it may have recipients to send to, whether
    /// it is looked at in each turn, until when it is not, and whether its permits have to be compared with those.
    var hasJobs = false
    var isReady = false
    var throttledUntil: ContinuousClock.Instant?
    var isChanged = false

    init(_ lane: Lane, of campaignID: Int64, rate: Double?, now: ContinuousClock.Instant) {
        self.lane = lane
        self.campaignID = campaignID
        limit = RateLimit(rate: rate, now: now)
        jobSize = Self.expectedJobSize(at: rate ?? 500)
        lastWanted = now
    }

    /// Recipients of a job at a rate, as `pushq.job_size` makes them.
    static func expectedJobSize(at rate: Double) -> Double { min(max(rate * 2, 1), 500) }

    /// As what it is urgent: an index of ``Lane/shared``.
    var urgency: Int { Int(lane.peer.rawValue) }

    /// Whether jobs wait that it could soon send.
    var runsLow: Bool { hasMoreWaiting && jobs.unsent < lowWater }
}
