/// Queues that may send nothing before a time, by that time. To add one and to take one costs the logarithm of how many
/// there are.
struct ThrottledQueues<Queue: Contender> {
    /// A heap by time. A queue may be in it more often than once, but only its earliest time counts.
    private var entries: [(time: ContinuousClock.Instant, queue: Queue)] = []

    /// When the first of them may send again; nil if there is none.
    var firstTime: ContinuousClock.Instant? { entries.first?.time }

    /// Keeps a queue that may send again at a time. One that is here with an earlier time stays with that.
    mutating func add(_ queue: Queue, until time: ContinuousClock.Instant) {
        if let known = queue.throttledUntil, known <= time { return }
        queue.throttledUntil = time
        entries.append((time, queue))
        entries.rise(at: entries.count - 1) { $0.time < $1.time }
    }

    /// Takes out one whose time has come.
    mutating func takeNext(now: ContinuousClock.Instant) -> Queue? {
        while let (time, queue) = entries.first, time <= now {
            entries.swapAt(0, entries.count - 1)
            entries.removeLast()
            entries.sink(at: 0) { $0.time < $1.time }
            guard queue.throttledUntil == time else { continue }
            queue.throttledUntil = nil
            return queue
        }
        return nil
    }
}
