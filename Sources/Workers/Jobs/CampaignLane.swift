import PostgresStore
import QueueCore

/// A campaign's own lane: the campaign's jobs that this worker holds, and its rate. Jobs that wait here for permits do
/// not delay other jobs of the queue.
///
/// Belongs to the engine's event loop.
final class CampaignLane: Throttleable {
    let lane: Lane
    let campaignID: Int64
    /// The campaign's limit. Each of its permits is also a permit of the queue and of the tenant. Without a rate, the
    /// lane uses the permits of the queue.
    var limit: RateLimit
    /// Jobs that have recipients to send to.
    var jobs = JobLane()
    /// The number of its jobs that this worker holds, in whatever state.
    var heldJobs = 0
    /// The average number of recipients of the claimed jobs.
    var jobSize: Double
    /// Whether jobs wait to be claimed, as far as polls and claims have shown.
    var hasMoreWaiting = false
    /// With fewer held recipients than this, the lane could soon send more than it holds.
    var lowWater = 0
    /// When a poll last found jobs, or jobs to create.
    var lastWanted: ContinuousClock.Instant

    // Bookkeeping of CampaignLanes, for no other use.
    /// Whether the lane may have recipients to send to.
    var hasJobs = false
    /// Whether each turn looks at the lane.
    var isReady = false
    /// Until when the lane is throttled.
    var throttledUntil: ContinuousClock.Instant?
    /// Whether the lane's permits have to be compared with its recipients.
    var isChanged = false

    init(_ lane: Lane, of campaignID: Int64, rate: Double?, now: ContinuousClock.Instant) {
        self.lane = lane
        self.campaignID = campaignID
        limit = RateLimit(rate: rate, now: now)
        jobSize = Self.expectedJobSize(at: rate)
        lastWanted = now
    }

    /// The number of recipients that `pushq.job_size` gives a job at a rate, or without one.
    static func expectedJobSize(at rate: Double?) -> Double {
        let maximum = Double(SettledJob.maximumRecipients)
        return rate.map { min(max($0 * 2, 1), maximum) } ?? maximum
    }

    /// The urgency of the lane, as an index of ``Lane/shared``.
    var urgency: Int { Int(lane.peer.rawValue) }

    /// Whether the lane could soon send more than it holds, and jobs wait.
    var runsLow: Bool { hasMoreWaiting && jobs.unsent < lowWater }
}
