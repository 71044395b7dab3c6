import QueueCore

/// A rate limit as this worker holds it: what it is, and the permits that were taken from it and not used.
struct RateLimit {
    /// Where permits follow one another faster than this, they are used together, and those of all limits at the same
    /// moments. Fifty queues of a thousand pushes per second each would otherwise have each push written by itself,
    /// which costs the worker and APNs many times as much.
    private static let step = Duration.milliseconds(10)
    private static let start = ContinuousClock.now

    /// Pushes per second; nil: no limit.
    private(set) var rate: Double?
    /// Permits taken and not used, the earliest first. Empty where there is no limit.
    private(set) var permits: [PermitRun] = []
    /// Permits that were not used in time, since ``takeLapsed()`` was last called.
    private var lapsed = 0
    /// When permits were used last, and when others may be.
    private var lastUse: (at: ContinuousClock.Instant, restsUntil: ContinuousClock.Instant)?
    /// PostgreSQL is asked for permits again at this time at the earliest.
    var nextTake: ContinuousClock.Instant

    init(rate: Double?, now: ContinuousClock.Instant) {
        self.rate = rate
        nextTake = now
    }

    /// Permits taken and not used, due or not.
    var permitsLeft: Int { permits.reduce(0) { $0 + $1.count - $1.spent } }

    /// When the next permit may be used; nil if none was taken.
    var nextPermit: ContinuousClock.Instant? {
        let next = permits.lazy.compactMap(\.next).min()
        guard let next, let lastUse else { return next }
        return max(next, lastUse.restsUntil)
    }

    /// Takes over a rate. If it is another one, what was known of the next permit does not hold any more.
    mutating func change(to new: Double?, now: ContinuousClock.Instant) {
        guard new != rate else { return }
        rate = new
        if new == nil { permits = [] }
        nextTake = now
    }

    /// Keeps permits that were granted.
    mutating func add(_ run: PermitRun) { if rate != nil { permits.append(run) } }

    /// The pushes that it allows at `now`; permits that have lapsed are dropped.
    mutating func allowance(at now: ContinuousClock.Instant) -> Int {
        guard rate != nil else { return .max }
        // At the same moment more may be used: a queue has several turns in a round.
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

    /// How many permits have lapsed since this was last asked.
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
