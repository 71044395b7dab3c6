import PostgresStore
import QueueCore

/// Decides how many permits to take from which rate limits, and when to ask again: no further ahead than the horizon, and no more than
/// there are recipients.
struct PermitPlan {
    /// A rate limit of which permits are needed.
    struct Limit {
        let owner: RateLimitOwner
        /// Recipients held and not sent to, and permits taken and not used.
        var unsent: Int
        var permits: Int
        /// Permits per second.
        var rate: Double
        /// It is not asked before then.
        var nextTake: ContinuousClock.Instant
    }

    /// What to do now.
    enum Step: Equatable {
        case take([Request])
        /// Wait for so long, or until there are fewer permits of a limit than recipients.
        case wait(Duration)
    }

    struct Request: Equatable {
        let owner: RateLimitOwner
        let permits: Int
    }

    /// What a rate limit gave: so many permits, from `startsIn` on, on the database's clock.
    struct Grant {
        var count: Int
        var startsIn: Duration
        var rate: Double
    }

    /// The longest wait.
    private static let longestWait = Duration.seconds(1)
    /// The shortest time between two requests to one limit after a grant.
    private static let shortestPause = Duration.milliseconds(5)

    /// How far ahead permits are taken.
    let horizon: Duration

    /// What to do now, as far as these limits are concerned.
    func next(_ limits: some Sequence<Limit>, now: ContinuousClock.Instant) -> Step {
        var requests: [Request] = []
        var pause = Self.longestWait
        for limit in limits {
            let wanted = min(limit.unsent - limit.permits, most(limit.rate))
            guard wanted > 0 else { continue }
            if now >= limit.nextTake {
                requests.append(Request(owner: limit.owner, permits: wanted))
            } else {
                pause = min(pause, now.duration(to: limit.nextTake))
            }
        }
        return requests.isEmpty ? .wait(pause) : .take(requests)
    }

    /// When a limit is asked next that granted nothing: it was in use by another worker at this moment, or, if nothing was answered at
    /// all, PostgreSQL is away.
    func nextTake(afterNoGrant isAnswered: Bool, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + horizon / (isAnswered ? 16 : 2)
    }

    /// When a limit is asked next after a grant: a slow one sleeps until its next permit comes within the horizon.
    func nextTake(after grant: Grant, now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        let nextStart = now + grant.startsIn + .seconds(Double(grant.count) / grant.rate)
        return max(nextStart - horizon / 2, now + Self.shortestPause)
    }

    /// The permits that a grant brought; nil for none.
    ///
    /// The database's moment lies between the request and `now`. To take `now` for it makes permits late by the way back, never early.
    func run(of grant: Grant, now: ContinuousClock.Instant) -> PermitRun? {
        guard grant.count > 0 else { return nil }
        return PermitRun(start: now + grant.startsIn, granted: now, rate: grant.rate, count: grant.count)
    }

    /// Permits that a rate has within the horizon; below four a second, one at a time.
    private func most(_ rate: Double) -> Int { max(1, Int(rate * (horizon / .seconds(1)))) }
}
