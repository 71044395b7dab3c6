import QueueCore

/// A rate limit as this worker knows it: the rate, and the permits that were taken but not used.
struct RateLimit {
    /// The time between two uses of permits, if they follow one another faster than this. They are then used together,
    /// and those of all limits at the same moments. Otherwise each push of fifty queues with a thousand pushes per
    /// second would be written by itself, which costs the worker and APNs many times as much.
    static let step = Duration.milliseconds(10)
    private static let start = ContinuousClock.now

    /// Pushes per second; nil if there is no limit.
    private(set) var rate: Double?
    /// Permits taken but not used, earliest first. Empty if there is no limit.
    private(set) var permits: [PermitRun] = []
    /// The number of permits that lapsed unused since the last call of ``takeLapsed()``.
    private var lapsed = 0
    /// When permits were last used, and when the next ones may be.
    private var lastUse: (at: ContinuousClock.Instant, restsUntil: ContinuousClock.Instant)?
    /// The earliest time at which PostgreSQL is asked for permits again.
    var nextTake: ContinuousClock.Instant

    init(rate: Double?, now: ContinuousClock.Instant) {
        self.rate = rate
        nextTake = now
    }

    /// The number of permits taken but not used, due or not.
    var permitsLeft: Int { permits.reduce(0) { $0 + $1.count - $1.spent } }

    /// When the next permit may be used; nil if none is left.
    var nextPermit: ContinuousClock.Instant? {
        let next = permits.lazy.compactMap(\.next).min()
        guard let next, let lastUse else { return next }
        return max(next, lastUse.restsUntil)
    }

    /// Adopts a rate. If it has changed, what was known about the next permit is no longer true.
    mutating func change(to new: Double?, now: ContinuousClock.Instant) {
        guard new != rate else { return }
        rate = new
        if new == nil { permits = [] }
        nextTake = now
    }

    /// Keeps permits that were granted.
    mutating func add(_ run: PermitRun) { if rate != nil { permits.append(run) } }

    /// Counts permits as lapsed that were granted and may not be used.
    mutating func noteVoid(_ count: Int) { lapsed += count }

    /// The number of pushes that the limit allows at `now`. Drops permits that have lapsed.
    mutating func allowance(at now: ContinuousClock.Instant) -> Int {
        guard rate != nil else { return .max }
        // At the moment of the last use, more may be used: a queue has several turns in a round.
        if let lastUse, now > lastUse.at, now < lastUse.restsUntil { return 0 }
        var available = 0
        for index in permits.indices {
            let spent = permits[index].spent
            available += permits[index].available(at: now)
            lapsed += permits[index].spent - spent
        }
        permits.removeAll { $0.isSpent }
        return available
    }

    /// The number of permits that have lapsed since the last call.
    mutating func takeLapsed() -> Int {
        defer { lapsed = 0 }
        return lapsed
    }

    /// Uses permits that are available, the earliest first.
    mutating func use(_ count: Int, at now: ContinuousClock.Instant) {
        guard rate != nil else { return }
        let steps = Int(Self.start.duration(to: now) / Self.step)
        lastUse = (now, Self.start + Self.step * (steps + 1))
        var left = count
        for index in permits.indices where left > 0 {
            let used = min(left, permits[index].available(at: now))
            permits[index].use(used)
            left -= used
        }
        permits.removeAll { $0.isSpent }
    }
}
