/// Counts how often APNs has returned an update of a Live Activity without looking at it. The queue keeps these counts,
/// because an update is sent again in another job, which does not know of them.
struct ReturnedUpdates {
    /// How long counts are kept. In this time, a push that APNs always returns is sent again without using an attempt
    /// only as often as `AnswerRules` allows.
    private static let memory = Duration.seconds(60)
    /// What is returned beyond this number uses its attempts, so that the counts do not grow during an outage.
    private static let maximumUpdates = 10_000

    private struct Update: Hashable {
        let rootID: Int64
        let deviceID: Int64
    }

    private var counts: [Update: Int] = [:]
    /// When the first of them was counted.
    private var since: ContinuousClock.Instant?

    /// Counts that a push was returned, and says how often that has happened.
    mutating func noteReturn(rootID: Int64, deviceID: Int64, now: ContinuousClock.Instant) -> Int {
        if let since, since.duration(to: now) > Self.memory { self = ReturnedUpdates() }
        since = since ?? now
        let update = Update(rootID: rootID, deviceID: deviceID)
        guard counts.count < Self.maximumUpdates || counts[update] != nil else { return .max }
        counts[update, default: 0] += 1
        return counts[update, default: 0]
    }
}
