/// How long polls take, and how long to wait between two of them, so that they take no more than a tenth of the time. A
/// poll costs more if many queues have work.
struct PollTimes {
    /// The longest wait. A poll may have been slow only because PostgreSQL or this process stood still.
    private static let longestPause = Duration.seconds(1)
    /// The number of latest polls among which to look for one that was not held up.
    private static let memory = 8

    private var latest: [Duration] = []

    /// How long to wait. Most polls also wait for a processor or for the event loop, which is no cost. So the shortest
    /// of the latest polls counts.
    var pause: Duration { min((latest.min() ?? .zero) * 10, Self.longestPause) }

    /// Notes how long a poll took.
    mutating func note(_ time: Duration) {
        latest.append(time)
        if latest.count > Self.memory { latest.removeFirst() }
    }
}
