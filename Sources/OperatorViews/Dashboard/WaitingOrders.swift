/// The orders of operators that wait until the present one is carried out.
///
/// A browser waits 30 seconds for an answer (`ServerLimits.answerTime`). An order that is carried out after that would
/// take its operator by surprise, and might undo what was decided since. So an order that has waited for too long is
/// given up, and its operator is told so.
struct WaitingOrders<Order> {
    enum Turn {
        case carryOut(Order)
        /// The order has waited for too long.
        case giveUp(Order)
    }

    static var maximum: Int { 100 }
    static var patience: Duration { .seconds(15) }

    private var waiting: [(order: Order, since: ContinuousClock.Instant)] = []

    /// Adds an order. Returns false if too many wait already.
    mutating func add(_ order: Order, now: ContinuousClock.Instant) -> Bool {
        guard waiting.count < Self.maximum else { return false }
        waiting.append((order, now))
        return true
    }

    /// Returns the order whose turn it is; nil if none waits.
    mutating func next(now: ContinuousClock.Instant) -> Turn? {
        guard !waiting.isEmpty else { return nil }
        let (order, since) = waiting.removeFirst()
        return now - since <= Self.patience ? .carryOut(order) : .giveUp(order)
    }
}
