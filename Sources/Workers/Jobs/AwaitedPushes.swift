/// The pushes whose answers are awaited while a gateway's circuit holds others back. They decide how many more may go
/// out.
///
/// A push counts if it went out since the circuit's phase began, and no longer ago than ``patience``. Otherwise a push
/// without an answer would keep all others of its gateway waiting until its request is given up.
///
/// A value without a clock: its owner passes the time.
struct AwaitedPushes {
    /// How long an answer is awaited before another push may go out instead.
    static let patience = Duration.seconds(5)

    /// Pushes that went out in the same turn of the event loop.
    private struct Burst {
        let sentAt: ContinuousClock.Instant
        var count: Int
    }

    /// In the order in which they went out.
    private var bursts: [Burst] = []

    /// Notes pushes that go out now.
    mutating func noteSent(_ count: Int, now: ContinuousClock.Instant) {
        if let last = bursts.last, last.sentAt == now {
            bursts[bursts.count - 1].count += count
        } else {
            bursts.append(Burst(sentAt: now, count: count))
        }
    }

    /// Notes that a push was answered, or is lost. It may be one that was not noted.
    mutating func noteEnded(sentAt: ContinuousClock.Instant) {
        // Over the binary interface, a push leaves some time after it was sent.
        guard let index = bursts.lastIndex(where: { $0.sentAt <= sentAt }) else { return }
        bursts[index].count -= 1
        if bursts[index].count == 0 { bursts.remove(at: index) }
    }

    /// The number of pushes whose answers are awaited, of those that went out since `began`.
    func count(since began: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Int {
        bursts.reduce(0) { $1.sentAt >= began && $1.sentAt + Self.patience > now ? $0 + $1.count : $0 }
    }
}
