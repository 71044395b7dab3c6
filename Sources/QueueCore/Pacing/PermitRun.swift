/// A run of permits to send, each with its own time, granted by rate limits.
///
/// Permit *i* may be used from `start + i / rate`, or from the time of the grant if that is later (it then belongs to
/// the burst), and lapses `lateness` later. Because each permit has a time and lapses, a rate holds exactly across any
/// number of workers, even stalled ones: the permits that a stalled worker took are void when it continues. (Permits
/// without times limit when they are granted, not when they are used: a stalled worker sends two slices at once.)
package struct PermitRun: Sendable {
    /// How long after its time a permit of one limit may be used. Permits that may be used late are subtracted from the
    /// burst when permits are granted, so that no second exceeds rate and burst. (A burst is a tenth of a second of its
    /// rate unless it is set.)
    package static let lateness = Duration.milliseconds(100)

    /// When the first permit is due by the rate; earlier than `granted` by as much as the burst allows.
    package let start: ContinuousClock.Instant
    /// When the run was granted.
    package let granted: ContinuousClock.Instant
    /// Permits per second; above 0.
    package let rate: Double
    /// The number of permits in the run.
    package let count: Int
    /// How long after its time each permit may be used.
    package let lateness: Duration
    /// The number of permits that are used or have lapsed.
    package private(set) var spent = 0

    package init(
        start: ContinuousClock.Instant, granted: ContinuousClock.Instant, rate: Double, count: Int,
        lateness: Duration = lateness
    ) {
        precondition(rate > 0, "a rate is above 0")
        self.start = start
        self.granted = granted
        self.rate = rate
        self.count = count
        self.lateness = lateness
    }

    /// Whether no permit is left.
    package var isSpent: Bool { spent >= count }

    /// When the next permit may be used; nil if none is left.
    package var next: ContinuousClock.Instant? {
        isSpent ? nil : max(granted, start + .seconds(Double(spent) / rate))
    }

    /// Drops the permits that have lapsed at `now` and returns how many may be used at this moment.
    package mutating func available(at now: ContinuousClock.Instant) -> Int {
        if now - lateness >= granted {
            spent = min(count, max(spent, permitsDue(by: now - lateness)))
        }
        guard now >= granted else { return 0 }
        return max(0, min(count, permitsDue(by: now)) - spent)
    }

    /// Uses `permits` of the available ones.
    package mutating func use(_ permits: Int) {
        precondition(permits <= count - spent, "more permits used than left")
        spent += permits
    }

    /// The number of permits whose time by the rate alone is not after `instant`.
    private func permitsDue(by instant: ContinuousClock.Instant) -> Int {
        let elapsed = start.duration(to: instant) / .seconds(1)
        return elapsed < 0 ? 0 : Int(min(elapsed * rate, 1e9)) + 1
    }
}
