/// How long polls take, and how long to wait between two, so that they take no more than a tenth of the time: a poll
/// costs more where many queues have work.
struct PollTimes {
    /// A poll that was slow because PostgreSQL or this process stood still is no reason to wait for longer than this.
    private static let longestPause = Duration.seconds(1)
    /// How many polls to look back for one that was not held up.
    private static let memory = 8

    private var latest: [Duration] = []

    /// How long to wait. Most polls also wait for a processor or for the event loop, which is no cost: so the shortest
    /// one of the latest tells.
    var pause: Duration { min((latest.min() ?? .zero) * 10, Self.longestPause) }

    /// Notes what a poll took.
    mutating func note(_ time: Duration) {
        latest.append(time)
        if latest.count > Self.memory { latest.removeFirst() }
    }
}
