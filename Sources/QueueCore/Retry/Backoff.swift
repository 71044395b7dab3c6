/// Exponential backoff with full jitter: a delay drawn evenly from nothing up to a ceiling that doubles with each
/// attempt.
///
/// Full jitter spreads a herd best (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog).
package struct Backoff: Hashable, Sendable {
    /// The ceiling after the first attempt.
    package let base: Duration
    /// The ceiling that no attempt exceeds.
    package let cap: Duration

    package init(base: Duration, cap: Duration) {
        precondition(base > .zero && cap >= base, "a backoff rises from a positive base to its cap")
        self.base = base
        self.cap = cap
    }

    /// Passing refusals of APNs: Apple asks for exponential backoff up to 15 minutes.
    package static let refusal = Backoff(base: .seconds(1), cap: .seconds(900))
    /// Connections to APNs: at most one attempt a minute in a long outage.
    package static let connection = Backoff(base: .seconds(1), cap: .seconds(60))
    /// Connections to PostgreSQL, and writes to it. A worker must be back before others take its leases for lost
    /// (Workers/Leases/Rescuer.swift), so the longest delay is short.
    package static let store = Backoff(base: .milliseconds(100), cap: .seconds(2))
    /// A tenant's webhook: soon again after a hiccup, and once or twice an hour while its receiver is away.
    package static let webhook = Backoff(base: .seconds(5), cap: .seconds(3600))

    /// The longest delay after `attempt` attempts (1 after the first).
    package func ceiling(afterAttempt attempt: Int) -> Duration {
        // 2^20 times any base of at least a millisecond is past any cap in use; the bound keeps the shift from
        // overflowing.
        min(cap, base * (1 << min(max(attempt - 1, 0), 20)))
    }

    /// A delay after `attempt` attempts, drawn from `0...ceiling`.
    package func delay(afterAttempt attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        ceiling(afterAttempt: attempt) * Double.random(in: 0...1, using: &generator)
    }
}
