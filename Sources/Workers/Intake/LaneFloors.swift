import PostgresStore
import QueueCore

/// The places at which polls of lanes begin while a full poll is slow.
///
/// A lane's jobs are claimed from its head. Their index entries stay until vacuum removes them, which it cannot do
/// while any transaction on the server may still see them, for example a report that takes an hour. Until then, each
/// poll passes over the entries of all claimed jobs. So a worker remembers up to which place each lane was empty, and
/// begins there. Every few seconds it polls the whole lane, because of late commits: a job has the time at which its
/// transaction began, which may be before jobs that were claimed before the commit.
struct LaneFloors {
    /// A full poll that takes at most this long is done every time.
    private static let cheapPoll = Duration.milliseconds(5)
    /// So is a full poll that takes at most this long for each lane that it finds, because it is slow only because
    /// there are many lanes.
    private static let cheapPair = Duration.microseconds(20)
    /// Otherwise full polls take a tenth of the time, with an interval within these bounds.
    private static let fullPolls = 10
    private static let interval = Duration.seconds(1)...Duration.seconds(5)
    /// A floor is the first job of its lane, or this long ago if that is earlier. So a poll finds at once the jobs of
    /// transactions that take at most this long. It also finds jobs that are due soon in a lane whose next job is due
    /// much later.
    private static let lag = Duration.milliseconds(250)
    /// The maximum number of floors in use. Each costs a probe of the index.
    private static let maximumCount = 64

    /// What is known about a lane: the place up to which it is empty.
    private struct Knowledge {
        var floor: LaneHead
        /// The number of jobs that were claimed from the lane recently. Each full poll halves it.
        var claimed = 0

        /// Whether a poll is to begin at the floor.
        var isOfUse: Bool { claimed > 0 && floor.place.lane.isShared }
    }

    private var lanes: [LanePlace: Knowledge] = [:]
    private var fullPollTook = Duration.zero
    private var fullPollPairs = 0
    private var fullPollAt: ContinuousClock.Instant?

    /// Whether the next poll is to be a full one. It is if there is no floor: another poll would take as long, and find
    /// no new campaign.
    /// - Parameter missesNews: see ``restsFromFullPoll(at:missesNews:)``.
    func isFullPollDue(at now: ContinuousClock.Instant, missesNews: Bool = false) -> Bool {
        !restsFromFullPoll(at: now, missesNews: missesNews) || !hasFloors
    }

    /// Whether a full poll was slow, and so short a time ago that no other one should follow yet.
    /// - Parameter missesNews: whether a producer has told of work that was not found at the floors, because it is a
    ///   campaign or lies below a floor. Then only the part of the time that full polls may take counts.
    func restsFromFullPoll(at now: ContinuousClock.Instant, missesNews: Bool = false) -> Bool {
        guard let fullPollAt, fullPollTook > max(Self.cheapPoll, Self.cheapPair * fullPollPairs) else { return false }
        let least = missesNews ? Duration.zero : Self.interval.lowerBound
        let pause = min(max(fullPollTook * Self.fullPolls, least), Self.interval.upperBound)
        return now < fullPollAt + pause
    }

    /// The floors at which a poll that is not full begins: those of the lanes from which most jobs were claimed, in
    /// order. A campaign's own lane is short and needs no floor.
    var floors: [LaneHead] {
        lanes.values.filter(\.isOfUse).sorted { $0.claimed > $1.claimed }.prefix(Self.maximumCount).map(\.floor)
            .sorted { $0.place < $1.place }
    }

    private var hasFloors: Bool { lanes.values.contains(where: \.isOfUse) }

    /// Notes a full poll. A job that it found below a floor lowers that floor.
    mutating func noteFullPoll(_ found: [ReadyWork.Jobs], took time: Duration, now: ContinuousClock.Instant) {
        (fullPollTook, fullPollPairs, fullPollAt) = (time, found.count, now)
        let before = lanes
        lanes = [:]
        for jobs in found {
            let place = jobs.head.place
            lanes[place] = Knowledge(floor: Self.floor(below: jobs), claimed: (before[place]?.claimed ?? 0) / 2)
        }
    }

    /// Notes a poll that began at the floors.
    mutating func notePoll(_ found: [ReadyWork.Jobs]) {
        for jobs in found {
            lanes[jobs.head.place, default: Knowledge(floor: jobs.head)].floor = Self.floor(below: jobs)
        }
    }

    private static func floor(below jobs: ReadyWork.Jobs) -> LaneHead {
        // The time at which the job is due, minus the time until then, is the time of the poll by PostgreSQL's clock.
        let latest = jobs.head.runAt - jobs.dueIn.wholeMicroseconds - lag.wholeMicroseconds
        return jobs.head.runAt < latest ? jobs.head : LaneHead(jobs.head.place, runAt: latest, jobID: .min)
    }

    /// Notes that jobs of a lane were claimed. Their index entries stay.
    mutating func noteClaim(of jobs: Int, from place: LanePlace) { lanes[place]?.claimed += jobs }
}
