import PostgresStore
import QueueCore

/// The shared lanes that this worker claimed jobs from lately. A notification says that there are jobs, and not where.
/// A claim from these lanes brings most single pushes to an idle worker, a poll earlier than otherwise.
///
/// In a large fleet all idle workers are notified, and one of them gets the job. The others forget their lanes until
/// they claim from them again, so each notification costs few claims in vain.
struct RecentLanes {
    /// How long a lane is remembered after a claim.
    private static let memory = Duration.seconds(60)
    /// The maximum number of lanes to claim from without a poll. With more lanes in use, a poll finds the right one
    /// sooner.
    private static let maximumCount = 8

    private var lastClaims: [LanePlace: ContinuousClock.Instant] = [:]

    /// Notes that a job of a lane was claimed.
    mutating func note(_ lane: LanePlace, now: ContinuousClock.Instant) {
        guard lane.lane.isShared else { return }
        if lastClaims.count > Self.maximumCount, lastClaims[lane] == nil {
            lastClaims = lastClaims.filter { isRecent($0.value, now) }
        }
        // One more than are of use shows that there are too many.
        if lastClaims.count <= Self.maximumCount || lastClaims[lane] != nil { lastClaims[lane] = now }
    }

    /// The lanes, in the order of queue and lane; none if there are many.
    func lanes(at now: ContinuousClock.Instant) -> [LanePlace] {
        let lanes = lastClaims.filter { isRecent($0.value, now) }.keys.sorted()
        return lanes.count <= Self.maximumCount ? lanes : []
    }

    private func isRecent(_ time: ContinuousClock.Instant, _ now: ContinuousClock.Instant) -> Bool {
        now < time + Self.memory
    }
}
