import PostgresStore
import QueueCore

/// Decides which lanes the next poll covers.
///
/// If ten thousand queues have work, a poll of all their lanes takes 50 ms, and a claim from all of them takes seconds.
/// So each poll and each claim covers a part of the lanes, and the next one begins where it ended: every lane has its
/// turn. While such polls take long, other polls come between them. These leave out the queues whose jobs wait for room
/// here, so that a queue that begins to send need not wait until all of those were looked at. If too many queues lie
/// between the waiting ones, these polls cover only the queues that were claimed from recently.
struct PollPlan {
    /// What to poll.
    enum Poll: Equatable {
        /// The lanes behind a place, each from its beginning, up to a maximum number; with or without the campaigns.
        case lanes(after: LanePlace, atMost: Int32, campaigns: Bool)
        /// All lanes, some from a floor on; with or without the campaigns, which are those that the last poll without
        /// floors found.
        case floors([LaneHead], campaigns: Bool)
        /// Only the shared lanes of these queues, in order, up to a maximum number; and some campaigns' own lanes.
        case within([QueueRange], own: [LanePlace], atMost: Int32)

        var coversCampaigns: Bool {
            switch self {
            case .lanes(_, _, let campaigns), .floors(_, let campaigns): campaigns
            case .within: false
            }
        }

        /// Whether the poll is one of those that cover all lanes in turn.
        var isOfRound: Bool { if case .within = self { false } else { true } }
    }

    /// How long a queue or a campaign's own lane counts as in use after it was claimed from, and the maximum numbers of
    /// those that count.
    private static let useLasts = Duration.seconds(60)
    private static let maximumQueuesInUse = 100
    private static let maximumOwnLanesInUse = 5000
    /// How often the plan asks which of these lanes need jobs. They hold what they send in a second.
    private static let ownLanesRest = Duration.milliseconds(100)
    /// How long a queue counts as waiting for room after a poll last found that it waits.
    private static let waitLasts = Duration.seconds(5)
    /// How often the ranges between the waiting queues are determined anew, and the maximum number of such ranges.
    private static let rangesLast = Duration.milliseconds(250)
    private static let maximumRanges = 100

    let maximumLanes: Int32
    private var floors = LaneFloors()
    /// The lane behind which the next poll and the next claim begin.
    private(set) var place = LanePlace.start
    /// Whether the next poll covers all lanes. It does while there is nothing to claim: one statement then polls the
    /// many lanes in which nothing is due yet, and the worker may sleep.
    private var pollsAll = false
    /// The campaigns that have jobs to create, as the last poll without floors found them.
    private(set) var campaigns: [ReadyWork.FanOut] = []
    /// How long polls that cover the campaigns take. They count the campaigns' ready jobs, which costs many times more
    /// than polling the lanes if fifty campaigns are under way. A single push has to wait only for a poll of the lanes.
    private var campaignPolls = PollTimes()
    private var campaignPollAt: ContinuousClock.Instant?
    /// Whether the last poll found something to claim, and whether it left out lanes that come next.
    private var hasJobs = false
    private var isPartial = false
    /// How long the polls that cover all lanes in turn take, and when the last one began.
    private var roundPolls = PollTimes()
    private var roundPollAt: ContinuousClock.Instant?
    /// How long the last other poll took.
    private var otherTook = Duration.zero
    /// When the queues in use were last claimed from, and when the campaigns' own lanes in use were.
    private var lastClaims: [Int32: ContinuousClock.Instant] = [:]
    private var ownLanesInUse: [LanePlace: ContinuousClock.Instant] = [:]
    private var ownLanesAt: ContinuousClock.Instant?
    /// When queues were last found to wait for room, and the ranges between them. There are no ranges if they are too
    /// many, or have too many lanes for one poll.
    private var waitingQueues: [Int32: ContinuousClock.Instant] = [:]
    private var ranges: [QueueRange] = []
    private var rangesAt: ContinuousClock.Instant?

    /// The shared lanes that jobs were claimed from lately.
    private var recentLanes = RecentLanes()

    init(maximumLanes: Int32 = ClaimPlan.maximumLanes) {
        self.maximumLanes = maximumLanes
    }

    /// What to poll at `now`. While there are jobs to claim, polls of campaigns take a tenth of the time, and so do
    /// polls of the queues that wait for room.
    /// - Parameters:
    ///   - missesNews: see ``LaneFloors/isFullPollDue(at:missesNews:)``.
    ///   - isLow: whether a campaign's own lane could soon send more than it holds.
    mutating func next(
        at now: ContinuousClock.Instant, missesNews: Bool = false, isLow: (LanePlace) -> Bool = { _ in true }
    ) -> Poll {
        if let roundPollAt, now < roundPollAt + roundPolls.pause {
            let ranges = currentRanges(at: now)
            if !ranges.isEmpty { return .within(ranges, own: ownLanes(at: now, where: isLow), atMost: maximumLanes) }
        }
        let campaigns = !hasJobs || campaignPollAt.map { now >= $0 + campaignPolls.pause } ?? true
        guard floors.isFullPollDue(at: now, missesNews: missesNews) else {
            return .floors(floors.floors, campaigns: campaigns)
        }
        return .lanes(after: place, atMost: pollsAll ? .max : maximumLanes, campaigns: campaigns)
    }

    /// The queues to poll between the polls of all lanes; none if those polls find nothing.
    private func currentRanges(at now: ContinuousClock.Instant) -> [QueueRange] {
        guard hasJobs || isPartial else { return [] }
        return ranges.isEmpty ? queuesInUse(at: now).sorted().map { QueueRange($0) } : ranges
    }

    /// The lanes in use for which `isLow` holds. Those that were claimed from the longest time ago come first.
    private mutating func ownLanes(
        at now: ContinuousClock.Instant, where isLow: (LanePlace) -> Bool
    ) -> [LanePlace] {
        if let ownLanesAt, now < ownLanesAt + Self.ownLanesRest { return [] }
        ownLanesAt = now
        ownLanesInUse = ownLanesInUse.filter { now < $0.value + Self.useLasts }
        let low = ownLanesInUse.filter { isLow($0.key) }
        guard low.count > Int(maximumLanes) else { return Array(low.keys) }
        return low.sorted { $0.value < $1.value }.prefix(Int(maximumLanes)).map(\.key)
    }

    private func queuesInUse(at now: ContinuousClock.Instant) -> Set<Int32> {
        Set(lastClaims.lazy.filter { now < $0.value + Self.useLasts }.map(\.key))
    }

    /// Determines the ranges between the queues that wait for room.
    private mutating func findRanges(at now: ContinuousClock.Instant) {
        if let rangesAt, now < rangesAt + Self.rangesLast { return }
        rangesAt = now
        waitingQueues = waitingQueues.filter { now < $0.value + Self.waitLasts }
        ranges = []
        // A queue in use may hold enough at this moment, but not for long.
        let waiting = Set(waitingQueues.keys).subtracting(queuesInUse(at: now))
        guard !waiting.isEmpty else { return }
        var found: [QueueRange] = []
        var last: Int32 = -1
        for queue in waiting.sorted() + [.max] {
            if queue > last + 1 { found.append(QueueRange(after: last, before: queue)) }
            last = queue
        }
        if found.count <= Self.maximumRanges { ranges = found }
    }

    /// How long the poll after one that took `time` will take. The wait before it depends on that.
    func nextTakes(after time: Duration, at now: ContinuousClock.Instant) -> Duration {
        currentRanges(at: now).isEmpty ? time : min(time, otherTook)
    }

    /// Notes what a poll that began at `begun` found.
    mutating func note(
        _ work: ReadyWork, of poll: Poll, begun: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) {
        if poll.coversCampaigns {
            campaignPolls.note(begun.duration(to: now))
            campaignPollAt = begun
        }
        if poll.isOfRound {
            roundPolls.note(begun.duration(to: now))
            roundPollAt = begun
        } else {
            otherTook = begun.duration(to: now)
        }
        switch poll {
        // If such a poll did not reach the end, there may be as many lanes again behind it.
        case .within(_, let own, _):
            if work.end != nil { ranges = [] }
            let found = Set(work.ownLanes.map(\.place))
            for place in own where !found.contains(place) { ownLanesInUse[place] = nil }
        case .floors: floors.notePoll(work.jobs)
        case .lanes:
            if work.end == nil {
                floors.noteFullPoll(work.jobs, took: begun.duration(to: now), now: begun)
            } else {
                // A part of a round is bounded already, and its floors would be incomplete.
                floors = LaneFloors()
            }
            if work.coversCampaigns { campaigns = work.fanOuts }
        }
    }

    /// Notes what is claimed after `poll`, so that the next poll begins behind it.
    /// - Parameter end: where the poll ended, if it did not cover all lanes.
    mutating func note(
        _ claim: ClaimPlan, after poll: Poll, end: LanePlace?, now: ContinuousClock.Instant
    ) {
        for place in claim.connectedLanes {
            lastClaims[place.queueID] = now
            if !place.lane.isShared { ownLanesInUse[place] = now }
        }
        Self.keepLatest(of: &lastClaims, atMost: Self.maximumQueuesInUse)
        Self.keepLatest(of: &ownLanesInUse, atMost: Self.maximumOwnLanesInUse)
        for queue in claim.leftOut { waitingQueues[queue] = now }
        for quota in claim.quotas { waitingQueues[quota.queueID] = nil }
        // Another poll does not change which lane comes next in the round, or whether there is anything to claim in it.
        guard poll.isOfRound else { return }
        hasJobs = !claim.quotas.isEmpty
        if !hasJobs { recentLanes.noteNothingFound() }
        isPartial = end != nil
        // While a queue waits for room, the worker must not sleep either.
        pollsAll = !hasJobs && claim.leftOut.isEmpty && (pollsAll || isPartial)
        // The poll may have found lanes behind `end`, where it did not look for campaigns.
        place = place.first(of: [claim.lastServed, end].compactMap(\.self)) ?? .start
        findRanges(at: now)
    }

    private static func keepLatest<Place>(of claims: inout [Place: ContinuousClock.Instant], atMost count: Int) {
        guard claims.count > count else { return }
        let latest = claims.sorted { $0.value > $1.value }.prefix(count)
        claims = Dictionary(uniqueKeysWithValues: latest.map { ($0.key, $0.value) })
    }

    /// Notes that a job of a lane was claimed.
    mutating func noteClaimed(from lane: LanePlace, now: ContinuousClock.Instant) {
        floors.noteClaim(of: 1, from: lane)
        recentLanes.note(lane, now: now)
    }

    /// The lanes in which a notification may be presumed to announce jobs. None while full polls are slow: a claim
    /// without a poll would pass over all that was claimed before.
    func presumed(at now: ContinuousClock.Instant) -> [LanePlace] {
        floors.restsFromFullPoll(at: now) ? [] : recentLanes.lanes(at: now)
    }

    /// Notes that there was no job in the lanes in which jobs were presumed.
    mutating func notePresumedInVain() { recentLanes.noteInVain() }
}
