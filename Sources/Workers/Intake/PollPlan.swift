import PostgresStore
import QueueCore

/// Decides which lanes the next poll covers.
///
/// If ten thousand queues have work, a poll of all their lanes takes 50 ms and a claim from all of them takes
/// seconds. So each poll and each claim covers a part of the lanes, and the next one begins where it ended: every lane
/// has its turn.
struct PollPlan {
    /// What to poll.
    enum Poll: Equatable {
        /// The lanes behind a place, from the beginning of each lane, and at most this number of lanes; and with or
        /// without the campaigns.
        case lanes(after: LanePlace, atMost: Int32, campaigns: Bool)
        /// All lanes, some of which begin at a floor; and with or without the campaigns, which are those that the last
        /// poll without floors found.
        case floors([LaneHead], campaigns: Bool)

        var coversCampaigns: Bool {
            switch self {
            case .lanes(_, _, let campaigns), .floors(_, let campaigns): campaigns
            }
        }
    }

    /// The maximum number of lanes that one poll covers and one claim takes from.
    static let maximumLanes: Int32 = 500

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
    /// Whether the last poll found something to claim.
    private var hasJobs = false

    init(maximumLanes: Int32 = Self.maximumLanes) {
        self.maximumLanes = maximumLanes
    }

    /// What to poll at `now`. While there are jobs to claim, campaigns are looked at for a tenth of the time.
    func next(at now: ContinuousClock.Instant) -> Poll {
        let campaigns = !hasJobs || campaignPollAt.map { now >= $0 + campaignPolls.pause } ?? true
        guard floors.isFullPollDue(at: now) else { return .floors(floors.floors, campaigns: campaigns) }
        return .lanes(after: place, atMost: pollsAll ? .max : maximumLanes, campaigns: campaigns)
    }

    /// Notes what a poll found that began at `begun`.
    mutating func note(
        _ work: ReadyWork, of poll: Poll, begun: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) {
        if poll.coversCampaigns {
            campaignPolls.note(begun.duration(to: now))
            campaignPollAt = begun
        }
        switch poll {
        case .floors: floors.notePoll(work.jobs.map(\.head), now: now)
        case .lanes:
            // A poll that did not cover all lanes is bounded already, and its floors would be incomplete.
            let time = work.end == nil ? begun.duration(to: now) : .zero
            floors.noteFullPoll(work.jobs.map(\.head), took: time, now: begun)
            if work.coversCampaigns { campaigns = work.fanOuts }
        }
    }

    /// Notes what is claimed after a poll, so that the next poll begins behind it.
    /// - Parameters:
    ///   - lastServed: the last lane that is claimed from, if other lanes with work were left out behind it.
    ///   - end: where the poll ended, if it did not cover all lanes.
    mutating func noteClaim(isEmpty: Bool, lastServed: LanePlace?, end: LanePlace?) {
        hasJobs = !isEmpty
        pollsAll = isEmpty && (pollsAll || end != nil)
        place = lastServed ?? end ?? .start
    }

    /// Notes that a job of a lane was claimed.
    mutating func noteClaimed(from lane: LanePlace) { floors.noteClaim(of: 1, from: lane) }
}
