import PostgresStore
import QueueCore

/// The shared lanes that this worker claimed jobs from lately. A notification says that there are jobs, and not where.
/// A claim from these lanes brings most single pushes to an idle worker, a poll earlier than otherwise.
///
/// In a large fleet all idle workers are notified, and one of them gets the job: usually the one that claimed from the
/// lane before, whose queue has a connection to APNs. The others forget their lanes until they claim from them again,
/// so each notification costs few claims in vain.
struct RecentLanes {
    /// How long a lane is in use after a claim. While one is, the others are left out.
    private static let useLasts = Duration.seconds(60)
    /// How long a lane is remembered: as long as a connection to APNs stays open without a push.
    private static let memory = Duration.seconds(3600)
    /// The maximum number of lanes to claim from without a poll. With more of them, a poll finds the right one sooner.
    private static let maximumCount = 8

    private var lastClaims: [LanePlace: ContinuousClock.Instant] = [:]
    /// Whether there was no job in the lanes when one was announced, and this worker has claimed none since.
    private var isInDoubt = false

    /// Notes that a job of a lane was claimed.
    mutating func note(_ lane: LanePlace, now: ContinuousClock.Instant) {
        guard lane.lane.isShared else { return }
        // The lane was missing, and no other worker was faster.
        isInDoubt = false
        // One more than are of use shows that there are too many. The latest ones are kept.
        if lastClaims.count > Self.maximumCount, lastClaims[lane] == nil,
            let oldest = lastClaims.min(by: { $0.value < $1.value }), !isInUse(oldest.value, now)
        {
            lastClaims[oldest.key] = nil
        }
        if lastClaims.count <= Self.maximumCount || lastClaims[lane] != nil { lastClaims[lane] = now }
    }

    /// Notes that no job could be claimed from the lanes when one was announced.
    mutating func noteInVain() { isInDoubt = true }

    /// Notes that a poll found nothing to claim. If a job was announced before it, another worker has got that job.
    mutating func noteNothingFound() {
        if isInDoubt { self = RecentLanes() }
    }

    /// The lanes, in the order of queue and lane; none if there are many.
    func lanes(at now: ContinuousClock.Instant) -> [LanePlace] {
        let inUse = lastClaims.filter { isInUse($0.value, now) }
        let lanes = inUse.isEmpty ? lastClaims.filter { now < $0.value + Self.memory } : inUse
        return lanes.count <= Self.maximumCount ? lanes.keys.sorted() : []
    }

    private func isInUse(_ time: ContinuousClock.Instant, _ now: ContinuousClock.Instant) -> Bool {
        now < time + Self.useLasts
    }
}
