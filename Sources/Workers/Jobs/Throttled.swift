/// What may be throttled: a queue, or the lane of one campaign.
protocol Throttleable: AnyObject {
    /// Until when its rate limits keep it from sending at most. Nobody but ``Throttled`` looks at it.
    var throttledUntil: ContinuousClock.Instant? { get set }
}

/// Queues or lanes that may send nothing before a time, by that time. To add one and to take one costs the logarithm of
/// how many there are.
struct Throttled<Sender: Throttleable> {
    /// A heap by time. A sender may be in it more often than once, but only its earliest time counts.
    private var entries: [(time: ContinuousClock.Instant, sender: Sender)] = []

    /// When the first of them may send again; nil if there is none.
    var firstTime: ContinuousClock.Instant? { entries.first?.time }

    /// Keeps a sender that may send again at a time. One that is here with an earlier time stays with that.
    mutating func add(_ sender: Sender, until time: ContinuousClock.Instant) {
        if let known = sender.throttledUntil, known <= time { return }
        sender.throttledUntil = time
        entries.append((time, sender))
        entries.rise(at: entries.count - 1) { $0.time < $1.time }
    }

    /// Takes out one whose time has come.
    mutating func takeNext(now: ContinuousClock.Instant) -> Sender? {
        while let (time, sender) = entries.first, time <= now {
            entries.swapAt(0, entries.count - 1)
            entries.removeLast()
            entries.sink(at: 0) { $0.time < $1.time }
            guard sender.throttledUntil == time else { continue }
            sender.throttledUntil = nil
            return sender
        }
        return nil
    }
}
