import PostgresStore
import QueueCore

/// Decides which lanes the next look covers.
///
/// If ten thousand queues have work, a look at all of their lanes takes 50 ms and a claim from all of them takes
/// seconds. So each look and each claim covers a part of the lanes, and the next one begins where it ended: every lane
/// has its turn.
struct LookPlan {
    /// How to look.
    enum Look: Equatable {
        /// At the lanes behind a place, from the beginning of each lane, and at most at this number of lanes.
        case lanes(after: LanePlace, atMost: Int32)
        /// At all lanes, some of which begin at a floor. The campaigns are those that the last look without floors
        /// found.
        case floors([LaneHead])
    }

    /// The maximum number of lanes that one look covers and one claim takes from.
    static let maximumLanes: Int32 = 500

    let maximumLanes: Int32
    private var floors = LaneFloors()
    /// The next look and the next claim begin behind this lane.
    private(set) var place = LanePlace.start
    /// Whether the next look covers all lanes. It does while there is nothing to claim: one statement then looks at the
    /// many lanes in which nothing is due yet, and the worker may sleep.
    private var looksAtAll = false
    /// The campaigns that have jobs to be made, as the last look without floors found them.
    private(set) var campaigns: [ReadyWork.FanOut] = []

    init(maximumLanes: Int32 = Self.maximumLanes) {
        self.maximumLanes = maximumLanes
    }

    /// How to look at `now`.
    func next(at now: ContinuousClock.Instant) -> Look {
        guard floors.isWholeLookDue(at: now) else { return .floors(floors.floors) }
        return .lanes(after: place, atMost: looksAtAll ? .max : maximumLanes)
    }

    /// Notes what a look found that began at `begun`.
    mutating func note(
        _ work: ReadyWork, of look: Look, begun: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) {
        switch look {
        case .floors: floors.noteLook(work.jobs.map(\.head), now: now)
        case .lanes:
            // A look that did not cover all lanes is bounded already, and its floors would be incomplete.
            let time = work.end == nil ? begun.duration(to: now) : .zero
            floors.noteWholeLook(work.jobs.map(\.head), took: time, now: begun)
            campaigns = work.fanOuts
        }
    }

    /// Notes what is claimed after a look, so that the next look begins behind it.
    /// - Parameters:
    ///   - lastServed: the last lane that is claimed from, if other lanes with work were left out behind it.
    ///   - end: where the look ended, if it did not cover all lanes.
    mutating func noteClaim(isEmpty: Bool, lastServed: LanePlace?, end: LanePlace?) {
        looksAtAll = isEmpty && (looksAtAll || end != nil)
        place = lastServed ?? end ?? .start
    }

    /// Notes that a job of a lane was claimed.
    mutating func noteClaimed(from lane: LanePlace) { floors.noteClaim(of: 1, from: lane) }
}
