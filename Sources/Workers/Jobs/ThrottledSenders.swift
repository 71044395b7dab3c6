/// A sender that may be throttled: a queue, or the lane of one campaign.
protocol Throttleable: AnyObject {
    /// The latest time until which rate limits keep the sender from sending. Only ``ThrottledSenders`` uses it.
    var throttledUntil: ContinuousClock.Instant? { get set }
}

/// The queues or lanes that may send nothing before some time, ordered by that time. Adding or taking one costs the
/// logarithm of their number.
struct ThrottledSenders<Sender: Throttleable> {
    /// A heap by time. A sender may be in it several times, but only its earliest time counts.
    private var entries: [(time: ContinuousClock.Instant, sender: Sender)] = []

    /// When the first sender may send again; nil if there is none.
    var firstTime: ContinuousClock.Instant? { entries.first?.time }

    /// Adds a sender that may send again at a time. If it is already here with an earlier time, it keeps that.
    mutating func add(_ sender: Sender, until time: ContinuousClock.Instant) {
        if let known = sender.throttledUntil, known <= time { return }
        sender.throttledUntil = time
        entries.append((time, sender))
        entries.rise(at: entries.count - 1) { $0.time < $1.time }
    }

    /// Takes out a sender whose time has come.
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
