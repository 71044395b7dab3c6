/// Exponential backoff with full jitter: each delay is drawn evenly between zero and a ceiling, which grows by the same
/// factor with each attempt.
///
/// Full jitter spreads a herd best (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog).
package struct Backoff: Hashable, Sendable {
    /// The ceiling after the first attempt.
    package let base: Duration
    /// The highest ceiling.
    package let cap: Duration
    /// The factor by which the ceiling grows.
    package let factor: Int

    package init(base: Duration, cap: Duration, factor: Int = 2) {
        precondition(
            base > .zero && cap >= base && factor > 1, "a backoff rises by a factor from a positive base to its cap")
        self.base = base
        self.cap = cap
        self.factor = factor
    }

    /// For transient refusals of APNs: Apple asks for exponential backoff up to 15 minutes.
    package static let refusal = Backoff(base: .seconds(1), cap: .seconds(900))
    /// For transient refusals of a gateway that accepts nearly all pushes: it usually accepts a refused push the next
    /// time, and a campaign ends with its last retry. The ceilings triple (0.1, 0.3, 0.9, 2.7 s and so on), so that ten
    /// attempts still last a quarter of an hour and not a minute.
    package static let rareRefusal = Backoff(base: .milliseconds(100), cap: .seconds(900), factor: 3)
    /// For connections to APNs: at most one attempt a minute in a long outage.
    package static let connection = Backoff(base: .seconds(1), cap: .seconds(60))
    /// For connections to PostgreSQL, and writes to it. A worker must be back before other workers take its leases for
    /// lost (Workers/Leases/Rescuer.swift), so the longest delay is short.
    package static let store = Backoff(base: .milliseconds(100), cap: .seconds(2))
    /// For a tenant's webhook: soon after a short failure, and once or twice an hour while its receiver is away.
    package static let webhook = Backoff(base: .seconds(5), cap: .seconds(3600))

    /// The longest delay after `attempt` attempts (1 after the first).
    package func ceiling(afterAttempt attempt: Int) -> Duration {
        var ceiling = base
        for _ in 1..<max(attempt, 1) {
            guard ceiling < cap else { return cap }
            ceiling *= factor
        }
        return min(cap, ceiling)
    }

    /// A delay after `attempt` attempts, drawn from `0...ceiling`.
    package func delay(afterAttempt attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        ceiling(afterAttempt: attempt) * Double.random(in: 0...1, using: &generator)
    }
}
