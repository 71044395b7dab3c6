/// A push that was lost before and waits until few others are in flight. Its connection takes no pushes with fewer
/// losses meanwhile.
struct AwaitedPush {
    /// How often it was lost; 0 if none waits.
    private(set) var losses = 0
    /// Since when it waits, in nanoseconds of the loop.
    private var since: UInt64 = 0

    /// Waits for a push that was lost this often. Returns false if a push that was lost as often waits already.
    mutating func start(pushLost losses: Int, now: UInt64) -> Bool {
        guard losses > self.losses else { return false }
        (self.losses, since) = (losses, now)
        return true
    }

    /// Waits no more: a push that was lost before has been sent.
    mutating func stop() { losses = 0 }

    /// Waits no more if no such push came within `limit`: it has gone over another connection, or back to the
    /// database. Returns whether that is so.
    mutating func stop(after limit: Duration, now: UInt64) -> Bool {
        guard losses > 0, .nanoseconds(now &- since) >= limit else { return false }
        losses = 0
        return true
    }
}
