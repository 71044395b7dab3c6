/// Limits how many frames of a kind a peer may send that carry no request or answer, by a rate with a burst.
///
/// It stores the one number of the generic cell rate algorithm: when the next frame would be due if the frames came
/// evenly. A peer is over its budget if that time is further ahead than the burst allows.
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

    /// Gives back frames that came with an answer. Nothing is saved up beyond the burst.
    mutating func earn(_ count: UInt64) {
        let earned = interval * count
        dueAt = dueAt > earned ? dueAt - earned : 0
    }
}
