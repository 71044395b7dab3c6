import PostgresStore

/// Where looks at lanes begin while a whole look is slow.
///
/// A lane's jobs are claimed from its head, and their index entries stay there until vacuum has been: for as long as
/// any transaction on the server may still see them, such as a report of an hour. Each look then passes over all that
/// were claimed since. So a worker remembers up to where each lane was empty, and begins there; and every few seconds
/// it looks at all of it, for what a transaction brought late: a job's time is that of its transaction's beginning, and
/// may lie below what was claimed before it was committed.
struct LaneFloors {
    /// A whole look that takes no longer is done every time, …
    private static let cheapLook = Duration.milliseconds(5)
    /// … and so is one that takes no longer than this for each lane that it finds: many lanes are slow in another way.
    private static let cheapPair = Duration.microseconds(20)
    /// Otherwise it makes a tenth of the time, within bounds.
    private static let wholeLooks = 10
    private static let interval = Duration.seconds(1)...Duration.seconds(5)
    /// A floor is what was empty so long ago: transactions that take no longer than that are met at once.
    private static let lag = Duration.milliseconds(250)
    /// Floors in use, at the most: each costs a probe of its own.
    private static let most = 64

    /// Up to where a lane is known to be empty.
    private struct Knowledge {
        /// In use.
        var floor: LaneHead
        /// What becomes the floor when it is old enough.
        var next: LaneHead
        var nextSince: ContinuousClock.Instant
        /// Jobs were there when it was last looked at.
        var claimed = 0
    }

    private var lanes: [LanePlace: Knowledge] = [:]
    private var wholeLookTook = Duration.zero
    private var wholeLookPairs = 0
    private var wholeLookAt: ContinuousClock.Instant?

    /// Whether the next look is to be at everything.
    func isWholeLookDue(at now: ContinuousClock.Instant) -> Bool {
        guard let wholeLookAt, wholeLookTook > max(Self.cheapLook, Self.cheapPair * wholeLookPairs) else { return true }
        let pause = min(max(wholeLookTook * Self.wholeLooks, Self.interval.lowerBound), Self.interval.upperBound)
        return now >= wholeLookAt + pause
    }

    /// Where a look begins that is not at everything: the lanes from which most was claimed, in order.
    var floors: [LaneHead] {
        lanes.values.filter { $0.claimed > 0 }.sorted { $0.claimed > $1.claimed }.prefix(Self.most).map(\.floor)
            .sorted { $0.place < $1.place }
    }

    /// Notes a look at everything. What it found below a floor lowers it.
    mutating func noteWholeLook(_ heads: [LaneHead], took time: Duration, now: ContinuousClock.Instant) {
        (wholeLookTook, wholeLookPairs, wholeLookAt) = (time, heads.count, now)
        let before = lanes
        lanes = [:]
        for head in heads {
            lanes[head.place] = Knowledge(
                floor: head, next: head, nextSince: now, claimed: (before[head.place]?.claimed ?? 0) / 2)
        }
    }

    /// Notes a look that began at the floors.
    mutating func noteLook(_ heads: [LaneHead], now: ContinuousClock.Instant) {
        for head in heads {
            guard var lane = lanes[head.place] else {
                lanes[head.place] = Knowledge(floor: head, next: head, nextSince: now)
                continue
            }
            if head.precedes(lane.floor) { lane.floor = head }
            if now >= lane.nextSince + Self.lag {
                lane.floor = lane.next
                (lane.next, lane.nextSince) = (head, now)
            }
            lanes[head.place] = lane
        }
    }

    /// Notes that jobs of a lane were claimed: their entries stay behind.
    mutating func noteClaim(of jobs: Int, from place: LanePlace) { lanes[place]?.claimed += jobs }
}
