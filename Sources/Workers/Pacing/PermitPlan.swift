import PostgresStore
import QueueCore

/// Decides how many permits to take for which lines, and when to ask again. Takes permits no further ahead than the
/// horizon, and no more than there are recipients.
struct PermitPlan {
    /// Pushes that take permits together: those of a campaign or queue with a limit of its own, or those of a tenant's
    /// queues that have none.
    struct Line {
        let owner: RateLimitOwner
        /// The number of recipients that could be sent to but were not, and of permits that were taken but not used.
        var unsent: Int
        var permits: Int
        /// Permits per second, as far as this worker knows.
        var rate: Double
        /// The weight of these pushes relative to other lines of the same tenant.
        var weight = 1.0
        /// The earliest time at which permits are requested again.
        var nextTake: ContinuousClock.Instant
    }

    /// What the owner has to do now.
    enum Step: Equatable {
        case take([PermitRequest])
        /// Wait for this time, or until a line has fewer permits than recipients.
        case wait(Duration)
    }

    /// The longest wait.
    private static let longestWait = Duration.seconds(1)
    /// The longest time between two requests to a limit. It may have been raised meanwhile.
    private static let longestRest = Duration.seconds(2)

    /// The rest after a look, for each line. Because of it, permits for thousands of lines are requested together, and
    /// looking at the lines takes a small part of a core, however many there are.
    private static let restForLine = Duration.microseconds(20)

    /// A worker far away from PostgreSQL never knows well when a permit was granted. Its permits may be used for this
    /// part of the usual time all the same, or it would send nothing.
    private static let partOfLatenessFarAway = 4

    /// If nobody can tell better than this when permits are granted, those of several limits are void: they lapse after
    /// half of the usual time.
    static let widestUncertainty: Duration = PermitRun.lateness / 2

    /// How far ahead permits are taken.
    let horizon: Duration

    /// How long to rest after a look at this number of lines. A few lines need no rest.
    func rest(afterLookingAt lines: Int) -> Duration { lines < 100 ? .zero : Self.restForLine * lines }

    /// What the owner has to do now for these lines.
    func next(_ lines: some Sequence<Line>, now: ContinuousClock.Instant) -> Step {
        var due: [(line: Line, wanted: Int)] = []
        var heaviest: [Int32: Double] = [:]
        var pause = Self.longestWait
        for line in lines where line.unsent > 0 {
            heaviest[line.owner.tenantID] = max(heaviest[line.owner.tenantID] ?? 0, line.weight)
            let wanted = min(line.unsent - line.permits, maximumPermits(at: line.rate))
            guard wanted > 0 else { continue }
            if now >= line.nextTake {
                due.append((line, wanted))
            } else {
                pause = min(pause, now.duration(to: line.nextTake))
            }
        }
        if due.isEmpty { return .wait(pause) }
        return .take(
            due.map { line, wanted in
                PermitRequest(
                    owner: line.owner, wanted: wanted, held: line.permits,
                    share: line.weight / heaviest[line.owner.tenantID]!)
            })
    }

    /// When permits are requested again for a line without an answer: another worker was using one of its limits at
    /// this moment or, if nothing was answered at all, PostgreSQL is away.
    func nextTake(afterNoGrant isAnswered: Bool, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + horizon / (isAnswered ? 16 : 2)
    }

    /// When permits are requested again for a line with an answer.
    func nextTake(after grant: GrantedPermits, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + min(grant.againIn, Self.longestRest)
    }

    /// The permits of a grant that may be used; nil if there are none.
    ///
    /// A permit is used neither before its time by the database's clock nor after it lapses. So it counts from the
    /// latest moment at which it may have been granted, and lapses as if it had been granted at the earliest one.
    /// However long the answer took or lay unread, no permit is used late. If nobody can tell when it was granted, it
    /// is void.
    func run(of grant: GrantedPermits, at moment: DatabaseClock.Moment) -> PermitRun? {
        guard grant.count > 0, let rate = grant.rate else { return nil }
        var lateness = grant.lateness - moment.uncertainty
        if moment.isSettled { lateness = max(lateness, grant.lateness / Self.partOfLatenessFarAway) }
        guard lateness > .zero else { return nil }
        return PermitRun(
            start: moment.latest + grant.startsIn, granted: moment.latest, rate: rate, count: grant.count,
            lateness: lateness)
    }

    /// The number of permits that a rate allows within the horizon; below four a second, one at a time.
    private func maximumPermits(at rate: Double) -> Int { max(1, Int(rate * (horizon / .seconds(1)))) }
}
