/// How many frames of a kind a peer may send that carry no request or answer: a rate with a burst.
///
/// Kept as the one number of the generic cell rate algorithm: when the next frame would have been due, had they come
/// evenly. A peer is over its budget when that lies further ahead than the burst reaches.
struct FloodBudget {
    private let interval: UInt64
    private let reach: UInt64
    private var dueAt: UInt64 = 0

    init(_ rate: ConnectionLimits.Rate) {
        interval = 1_000_000_000 / UInt64(rate.perSecond)
        reach = interval * UInt64(rate.burst)
    }

    /// Whether one more frame is within the budget; `now` in nanoseconds.
    mutating func spend(now: UInt64) -> Bool {
        dueAt = max(dueAt, now) &+ interval
        return dueAt &- now <= reach
    }

    /// Gives frames back that came along with something useful. Nothing is saved up beyond the burst.
    mutating func earn(_ count: UInt64) {
        let earned = interval * count
        dueAt = dueAt > earned ? dueAt - earned : 0
    }
}
