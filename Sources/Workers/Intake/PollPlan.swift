import PostgresStore
import QueueCore

/// Decides which lanes the next poll covers.
///
/// If ten thousand queues have work, a poll of all their lanes takes 50 ms and a claim from all of them takes
/// seconds. So each poll and each claim covers a part of the lanes, and the next one begins where it ended: every lane
/// has its turn. While such polls take long, others come between them that leave out the queues whose jobs wait for
/// room here: whoever begins to send does not wait until all of these were looked at. Where there are too many queues
/// between them for that, these polls are of the queues alone that were claimed from of late.
struct PollPlan {
    /// What to poll.
    enum Poll: Equatable {
        /// The lanes behind a place, from the beginning of each lane, and at most this number of lanes; and with or
        /// without the campaigns.
        case lanes(after: LanePlace, atMost: Int32, campaigns: Bool)
        /// All lanes, some of which begin at a floor; and with or without the campaigns, which are those that the last
        /// poll without floors found.
        case floors([LaneHead], campaigns: Bool)
        /// The lanes that all share of these queues alone, in order, and at most this number; and some lanes that are
        /// one campaign's own.
        case within([QueueRange], own: [LanePlace], atMost: Int32)

        var coversCampaigns: Bool {
            switch self {
            case .lanes(_, _, let campaigns), .floors(_, let campaigns): campaigns
            case .within: false
            }
        }

        /// Whether it is one of those that cover all lanes in turn.
        fileprivate var isOfRound: Bool { if case .within = self { false } else { true } }
    }

    /// A queue, or a lane that is one campaign's own, is in use for so long after it was claimed from, and no more of
    /// them count than these.
    private static let useLasts = Duration.seconds(60)
    private static let maximumQueuesInUse = 100
    private static let maximumOwnLanesInUse = 5000
    /// How often it is asked which of those need jobs: they hold what they send in a second.
    private static let ownLanesRest = Duration.milliseconds(100)
    /// A queue is taken to wait for room for so long after a poll last found it so.
    private static let waitLasts = Duration.seconds(5)
    /// How often it is worked out anew what lies between the queues that wait, and the maximum number of such ranges.
    private static let rangesLast = Duration.milliseconds(250)
    private static let maximumRanges = 100

    let maximumLanes: Int32
    private var floors = LaneFloors()
    /// The next poll and the next claim begin behind this lane.
    private(set) var place = LanePlace.start
    /// Whether the next poll covers all lanes. It does while there is nothing to claim: one statement then polls the
    /// many lanes in which nothing is due yet, and the worker may sleep.
    private var pollsAll = false
    /// The campaigns that have jobs to be made, as the last poll without floors found them.
    private(set) var campaigns: [ReadyWork.FanOut] = []
    /// What polls take that look at the campaigns, too. Their ready jobs are counted, which costs many times more than
    /// to look at the lanes if fifty campaigns are under way; and a single push waits for nothing but the lanes.
    private var campaignPolls = PollTimes()
    private var campaignPollAt: ContinuousClock.Instant?
    /// Whether the last poll found something to claim, and whether it left out lanes that come next.
    private var hasJobs = false
    private var isPartial = false
    /// What the polls take that cover all lanes in turn, and when the last one began.
    private var roundPolls = PollTimes()
    private var roundPollAt: ContinuousClock.Instant?
    /// What the last poll took that was not one of them.
    private var otherTook = Duration.zero
    /// When the queues in use were last claimed from, and the lanes in use that are one campaign's own.
    private var lastClaims: [Int32: ContinuousClock.Instant] = [:]
    private var ownLanesInUse: [LanePlace: ContinuousClock.Instant] = [:]
    private var ownLanesAt: ContinuousClock.Instant?
    /// When queues were last found to wait for room, and what lies between them; empty where these are too many, or
    /// have too many lanes for a poll.
    private var waitingQueues: [Int32: ContinuousClock.Instant] = [:]
    private var ranges: [QueueRange] = []
    private var rangesAt: ContinuousClock.Instant?

    init(maximumLanes: Int32 = ClaimPlan.maximumLanes) {
        self.maximumLanes = maximumLanes
    }

    /// What to poll at `now`. While there are jobs to claim, campaigns are looked at for a tenth of the time, and so is
    /// what waits for room.
    /// - Parameter isLow: whether a lane that is one campaign's own could soon send more than is held of it.
    mutating func next(at now: ContinuousClock.Instant, isLow: (LanePlace) -> Bool = { _ in true }) -> Poll {
        if let roundPollAt, now < roundPollAt + roundPolls.pause {
            let ranges = currentRanges(at: now)
            if !ranges.isEmpty { return .within(ranges, own: ownLanes(at: now, where: isLow), atMost: maximumLanes) }
        }
        let campaigns = !hasJobs || campaignPollAt.map { now >= $0 + campaignPolls.pause } ?? true
        guard floors.isFullPollDue(at: now) else { return .floors(floors.floors, campaigns: campaigns) }
        return .lanes(after: place, atMost: pollsAll ? .max : maximumLanes, campaigns: campaigns)
    }

    /// The queues to look at between the polls of all lanes; none where those find nothing.
    private func currentRanges(at now: ContinuousClock.Instant) -> [QueueRange] {
        guard hasJobs || isPartial else { return [] }
        return ranges.isEmpty ? queuesInUse(at: now).sorted().map { QueueRange($0) } : ranges
    }

    /// Those in use for which `isLow` holds: the ones that were claimed from the longest time ago come first.
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

    /// Works out what lies between the queues that wait for room.
    private mutating func findRanges(at now: ContinuousClock.Instant) {
        if let rangesAt, now < rangesAt + Self.rangesLast { return }
        rangesAt = now
        waitingQueues = waitingQueues.filter { now < $0.value + Self.waitLasts }
        ranges = []
        // A queue in use has enough at this moment, and soon has not.
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

    /// What the poll after one that took `time` will take, which says how long to wait for it.
    func nextTakes(after time: Duration, at now: ContinuousClock.Instant) -> Duration {
        currentRanges(at: now).isEmpty ? time : min(time, otherTook)
    }

    /// Notes what a poll found that began at `begun`.
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
        // There may be as many lanes again behind these.
        case .within(_, let own, _):
            if work.end != nil { ranges = [] }
            let found = Set(work.ownLanes.map(\.place))
            for place in own where !found.contains(place) { ownLanesInUse[place] = nil }
        case .floors: floors.notePoll(work.jobs)
        case .lanes:
            if work.end == nil {
                floors.noteFullPoll(work.jobs, took: begun.duration(to: now), now: begun)
            } else {
                // It is bounded already, and its floors would be incomplete.
                floors = LaneFloors()
            }
            if work.coversCampaigns { campaigns = work.fanOuts }
        }
    }

    /// Notes what is claimed after `poll`, so that the next one begins behind it.
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
        // Which lane comes next in the round, and whether there is anything to claim in it, is known as before.
        guard poll.isOfRound else { return }
        hasJobs = !claim.quotas.isEmpty
        isPartial = end != nil
        // Nor may it sleep while something waits for room.
        pollsAll = !hasJobs && claim.leftOut.isEmpty && (pollsAll || isPartial)
        // Lanes may have been found behind the end, where nobody has looked for campaigns.
        place = place.first(of: [claim.lastServed, end].compactMap(\.self)) ?? .start
        findRanges(at: now)
    }

    private static func keepLatest<Place>(of claims: inout [Place: ContinuousClock.Instant], atMost count: Int) {
        guard claims.count > count else { return }
        let latest = claims.sorted { $0.value > $1.value }.prefix(count)
        claims = Dictionary(uniqueKeysWithValues: latest.map { ($0.key, $0.value) })
    }

    /// Notes that a job of a lane was claimed.
    mutating func noteClaimed(from lane: LanePlace) { floors.noteClaim(of: 1, from: lane) }
}
