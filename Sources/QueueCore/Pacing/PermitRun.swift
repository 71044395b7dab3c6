/// A run of permits to send, each with a time of its own, taken from a queue's rate limit.
///
/// Permit *i* may be used from `start + i / rate` and lapses `grace` later. Because a permit has a time and lapses, a rate
/// holds exactly across any number of workers, stalled ones included: what a sleeper took is void when it wakes.
/// (Permits without times bound when they are granted, not when they are used: a stalled worker sends two slices at once.)
package struct PermitRun: Sendable {
    /// How long after its time a permit may be used.
    package static let grace = Duration.milliseconds(250)

    /// When the first permit may be used.
    package let start: ContinuousClock.Instant
    /// Permits a second; above 0.
    package let rate: Double
    /// How many permits the run has.
    package let count: Int
    /// How many of them are used or lapsed.
    package private(set) var spent = 0

    package init(start: ContinuousClock.Instant, rate: Double, count: Int) {
        precondition(rate > 0, "a rate is above 0")
        self.start = start
        self.rate = rate
        self.count = count
    }

    /// Whether no permit is left.
    package var isSpent: Bool { spent >= count }

    /// When the next permit may be used; nil if none is left.
    package var next: ContinuousClock.Instant? { isSpent ? nil : time(of: spent) }

    /// Drops the permits that have lapsed at `now` and returns how many may be used at this moment.
    package mutating func available(at now: ContinuousClock.Instant) -> Int {
        let lapsed = index(reachedAt: now - Self.grace)
        spent = min(count, max(spent, lapsed))
        return max(0, min(count, index(reachedAt: now)) - spent)
    }

    /// Uses `permits` of those that are available.
    package mutating func use(_ permits: Int) {
        precondition(permits <= count - spent, "more permits used than left")
        spent += permits
    }

    private func time(of index: Int) -> ContinuousClock.Instant { start + .seconds(Double(index) / rate) }

    /// The number of permits whose time is not after `now`.
    private func index(reachedAt now: ContinuousClock.Instant) -> Int {
        let elapsed = start.duration(to: now) / .seconds(1)
        return elapsed < 0 ? 0 : Int(min(elapsed * rate, 1e9)) + 1
    }
}
