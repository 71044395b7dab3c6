import QueueCore

/// Remembers failed attempts to reach APNs, and says when the next one may be made. This is a circuit breaker without
/// the half-open state: an attempt costs no push, so it is the probe.
struct Reachability {
    /// A time without a usable connection.
    private(set) var downtime: Downtime?
    private var failureCount = 0
    /// When the first of these attempts failed.
    private var failingSince: ContinuousClock.Instant?
    private let backoff: Backoff

    init(backoff: Backoff) {
        self.backoff = backoff
    }

    /// Notes that an attempt failed, or that a connection did not last.
    mutating func failed(
        _ error: String, now: ContinuousClock.Instant, using generator: inout some RandomNumberGenerator
    ) {
        failureCount += 1
        let began = failingSince ?? now
        failingSince = began
        let delay = delay(after: began.duration(to: now), using: &generator)
        downtime = Downtime(since: downtime?.since ?? now, error: error, nextAttempt: now + delay)
    }

    /// Notes that there is no connection yet, and that the attempt at one goes on.
    mutating func delayed(_ error: String, now: ContinuousClock.Instant) {
        if downtime == nil { downtime = Downtime(since: now, error: error, nextAttempt: now) }
    }

    /// Notes that a connection is open. The count of failures stays until ``proved()``.
    mutating func reached() {
        downtime = nil
    }

    /// Notes that a connection has lasted.
    mutating func proved() {
        failureCount = 0
        failingSince = nil
        downtime = nil
    }

    /// Returns the wait before the next attempt. It has full jitter until its ceiling is the cap. From then on it is as
    /// long as attempts have failed so far: a sixth of the cap at least, and never shorter than the cap once they have
    /// failed for that long. So a long downtime has at most one attempt a minute, because every attempt would prolong a
    /// ban. A shorter one is not followed by a wait that is much longer than it was.
    private func delay(
        after failing: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        guard backoff.ceiling(afterAttempt: failureCount) == backoff.cap else {
            return backoff.delay(afterAttempt: failureCount, using: &generator)
        }
        let least = min(backoff.cap, max(failing, backoff.cap / 6))
        return least + least / 6 * Double.random(in: 0...1, using: &generator)
    }
}

/// Why and since when a gateway has no connection, although one is wanted.
package struct Downtime: Equatable, Sendable {
    /// The beginning of the downtime.
    package let since: ContinuousClock.Instant
    /// How the last attempt failed, in one line for the operator.
    package let error: String
    /// When the gateway tries again by itself.
    package let nextAttempt: ContinuousClock.Instant
}
