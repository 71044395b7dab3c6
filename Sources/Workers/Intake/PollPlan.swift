import PostgresStore
import QueueCore

/// Decides which lanes the next poll covers.
///
/// If ten thousand queues have work, a poll of all their lanes takes 50 ms and a claim from all of them takes
/// seconds. So each poll and each claim covers a part of the lanes, and the next one begins where it ended: every lane
/// has its turn. While such polls take long, the lanes that were claimed from of late are polled between them: whoever
/// sends now does not wait until all the others were looked at.
struct PollPlan {
    /// What to poll.
    enum Poll: Equatable {
        /// The lanes behind a place, from the beginning of each lane, and at most this number of lanes; and with or
        /// without the campaigns.
        case lanes(after: LanePlace, atMost: Int32, campaigns: Bool)
        /// All lanes, some of which begin at a floor; and with or without the campaigns, which are those that the last
        /// poll without floors found.
        case floors([LaneHead], campaigns: Bool)
        /// These lanes alone, in order.
        case inUse([LanePlace])

        var coversCampaigns: Bool {
            switch self {
            case .lanes(_, _, let campaigns), .floors(_, let campaigns): campaigns
            case .inUse: false
            }
        }

        fileprivate var isOfLanesInUse: Bool { if case .inUse = self { true } else { false } }
    }

    /// The maximum number of lanes that one poll covers and one claim takes from.
    static let maximumLanes: Int32 = 500
    /// A lane is in use for so long after it was claimed from, and no more of them count than these.
    private static let useLasts = Duration.seconds(60)
    private static let maximumLanesInUse = 100

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
    /// What the last poll of lanes in use took.
    private var useTook = Duration.zero
    /// When the lanes in use were last claimed from.
    private var lanesInUse: [LanePlace: ContinuousClock.Instant] = [:]

    init(maximumLanes: Int32 = Self.maximumLanes) {
        self.maximumLanes = maximumLanes
    }

    /// What to poll at `now`. While there are jobs to claim, campaigns are looked at for a tenth of the time, and so are
    /// the lanes that are not in use.
    func next(at now: ContinuousClock.Instant) -> Poll {
        if let roundPollAt, now < roundPollAt + roundPolls.pause {
            let inUse = currentLanesInUse(at: now)
            if !inUse.isEmpty { return .inUse(inUse.sorted()) }
        }
        let campaigns = !hasJobs || campaignPollAt.map { now >= $0 + campaignPolls.pause } ?? true
        guard floors.isFullPollDue(at: now) else { return .floors(floors.floors, campaigns: campaigns) }
        return .lanes(after: place, atMost: pollsAll ? .max : maximumLanes, campaigns: campaigns)
    }

    /// The lanes in use, while there is more to claim than they have; otherwise none.
    private func currentLanesInUse(at now: ContinuousClock.Instant) -> [LanePlace] {
        guard hasJobs || isPartial else { return [] }
        return lanesInUse.filter { now < $0.value + Self.useLasts }.map(\.key)
    }

    /// What the poll after one that took `time` will take, which says how long to wait for it.
    func nextTakes(after time: Duration, at now: ContinuousClock.Instant) -> Duration {
        currentLanesInUse(at: now).isEmpty ? time : min(time, useTook)
    }

    /// Notes what a poll found that began at `begun`.
    mutating func note(
        _ work: ReadyWork, of poll: Poll, begun: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) {
        if poll.coversCampaigns {
            campaignPolls.note(begun.duration(to: now))
            campaignPollAt = begun
        }
        if poll.isOfLanesInUse {
            useTook = begun.duration(to: now)
        } else {
            roundPolls.note(begun.duration(to: now))
            roundPollAt = begun
        }
        switch poll {
        case .inUse: break
        case .floors: floors.notePoll(work.jobs.map(\.head), now: now)
        case .lanes:
            // A poll that did not cover all lanes is bounded already, and its floors would be incomplete.
            let time = work.end == nil ? begun.duration(to: now) : .zero
            floors.noteFullPoll(work.jobs.map(\.head), took: time, now: begun)
            if work.coversCampaigns { campaigns = work.fanOuts }
        }
    }

    /// Notes what is claimed after `poll`, so that the next one begins behind it.
    /// - Parameter end: where the poll ended, if it did not cover all lanes.
    mutating func note(
        _ claim: ClaimPlan, after poll: Poll, end: LanePlace?, now: ContinuousClock.Instant
    ) {
        for place in claim.connectedLanes { lanesInUse[place] = now }
        if lanesInUse.count > Self.maximumLanesInUse {
            let latest = lanesInUse.sorted { $0.value > $1.value }.prefix(Self.maximumLanesInUse)
            lanesInUse = Dictionary(uniqueKeysWithValues: latest.map { ($0.key, $0.value) })
        }
        // Which lane comes next in the round, and whether there is anything to claim in it, is known as before.
        if poll.isOfLanesInUse { return }
        hasJobs = !claim.quotas.isEmpty
        isPartial = end != nil
        // Nor may it sleep while something waits for room.
        pollsAll = !hasJobs && !claim.leftOut && (pollsAll || isPartial)
        place = claim.lastServed ?? end ?? .start
    }

    /// Notes that a job of a lane was claimed.
    mutating func noteClaimed(from lane: LanePlace) { floors.noteClaim(of: 1, from: lane) }
}
