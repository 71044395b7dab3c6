import PostgresStore
import QueueCore

/// Decides how many permits to take for which lines, and when to ask again: no further ahead than the horizon, and no
/// more than there are recipients.
struct PermitPlan {
    /// What takes permits: the pushes of a campaign or queue with a limit of its own, or those of a tenant's queues
    /// that have none.
    struct Line {
        let owner: RateLimitOwner
        /// Recipients that could be sent to and were not, and permits taken and not used.
        var unsent: Int
        var permits: Int
        /// Permits per second, as far as this worker knows.
        var rate: Double
        /// The weight of what is sent with them, against other lines of the same tenant.
        var weight = 1.0
        /// It is not asked before then.
        var nextTake: ContinuousClock.Instant
    }

    /// What to do now.
    enum Step: Equatable {
        case take([PermitRequest])
        /// Wait for so long, or until there are fewer permits of a line than recipients.
        case wait(Duration)
    }

    /// The longest wait.
    private static let longestWait = Duration.seconds(1)
    /// A limit is asked at least so often: it may have been raised meanwhile.
    private static let longestRest = Duration.seconds(2)

    /// The rest after a look, for each line. So what thousands of lines lack is asked for together, and to look at them
    /// takes a small part of a core however many there are.
    private static let restForLine = Duration.microseconds(20)

    /// How far ahead permits are taken.
    let horizon: Duration

    /// How long to rest after a look at so many lines. A few need none.
    func rest(afterLookingAt lines: Int) -> Duration { lines < 100 ? .zero : Self.restForLine * lines }

    /// What to do now, as far as these lines are concerned.
    func next(_ lines: some Sequence<Line>, now: ContinuousClock.Instant) -> Step {
        var due: [(line: Line, wanted: Int)] = []
        var heaviest: [Int32: Double] = [:]
        var pause = Self.longestWait
        for line in lines where line.unsent > 0 {
            heaviest[line.owner.tenantID] = max(heaviest[line.owner.tenantID] ?? 0, line.weight)
            let wanted = min(line.unsent - line.permits, most(line.rate))
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

    /// When a line is asked for next that was not answered: one of its limits was in use by another worker at this
    /// moment, or, if nothing was answered at all, PostgreSQL is away.
    func nextTake(afterNoGrant isAnswered: Bool, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + horizon / (isAnswered ? 16 : 2)
    }

    /// When a line is asked for next that was answered.
    func nextTake(after grant: GrantedPermits, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + min(grant.againIn, Self.longestRest)
    }

    /// The permits that a grant brought; nil for none.
    ///
    /// The database's moment lies between the request and `now`. To take `now` for it makes permits late by the way
    /// back, never early.
    func run(of grant: GrantedPermits, now: ContinuousClock.Instant) -> PermitRun? {
        guard grant.count > 0, let rate = grant.rate else { return nil }
        return PermitRun(
            start: now + grant.startsIn, granted: now, rate: rate, count: grant.count, lateness: grant.lateness)
    }

    /// Permits that a rate has within the horizon; below four a second, one at a time.
    private func most(_ rate: Double) -> Int { max(1, Int(rate * (horizon / .seconds(1)))) }
}
