/// How many pushes may be in flight over a connection together with one that was lost before.
///
/// A connection may end because of one of its pushes without saying which. All the others are then lost with it. So a
/// push that was lost goes beside fewer others each time, and alone before its last loss, which can be nobody else's
/// fault.
package struct LossIsolation {
    /// The number of losses after which a push is given up.
    package static let maximumLosses = 5
    private static let lossesUntilAlone = maximumLosses - 1

    /// Returns the maximum number of pushes in flight, including one that was lost this often before.
    /// - Parameter full: the number without a loss.
    static func limit(ofPushLost losses: Int, full: Int) -> Int {
        guard losses > 0 else { return .max }
        return losses >= lossesUntilAlone ? 1 : (0..<losses).reduce(full) { size, _ in max(1, size / 10) }
    }

    /// The limits of the pushes in flight that were lost before, by stream. Usually empty.
    private var limits: [UInt32: Int] = [:]
    /// The lowest limit of the pushes in flight.
    private(set) var limit = Int.max
    private(set) var awaited = AwaitedPush()

    /// Whether nothing in flight was lost before, and no such push waits; and since when that is not so.
    var isUnlimited: Bool { limit == .max && awaited.losses == 0 }
    private(set) var limitedSince: UInt64 = 0

    /// How many more pushes may be sent beside those in flight.
    func room(beside inFlight: Int, full: Int) -> Int {
        max(0, min(limit, Self.limit(ofPushLost: awaited.losses, full: full)) - inFlight)
    }

    /// Notes the sending of a push that was lost before.
    mutating func add(_ stream: UInt32, lost losses: Int, full: Int, now: UInt64) {
        if isUnlimited { limitedSince = now }
        limits[stream] = Self.limit(ofPushLost: losses, full: full)
        limit = min(limit, limits[stream] ?? .max)
        awaited.stop()
    }

    /// Notes that a push has its result.
    mutating func remove(_ stream: UInt32) {
        guard limits.removeValue(forKey: stream) == limit else { return }
        limit = limits.values.min() ?? .max
    }

    /// Keeps the connection free for a push that was lost this often.
    mutating func await(pushLost losses: Int, now: UInt64) {
        let wasUnlimited = isUnlimited
        if awaited.start(pushLost: losses, now: now), wasUnlimited { limitedSince = now }
    }

    /// Stops keeping the connection free if no such push came within `limit`. Returns whether it did.
    mutating func forgetAwaited(after limit: Duration, now: UInt64) -> Bool { awaited.stop(after: limit, now: now) }
}
