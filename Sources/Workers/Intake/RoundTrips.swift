/// How long the way to PostgreSQL and back takes. It is part of the time of each poll, and costs nobody anything.
struct RoundTrips {
    /// The number of latest statements among which to look for one that was not held up.
    private static let memory = 8

    private var latest: [Duration] = []

    /// The time of the fastest of the latest statements; zero as long as it is not known. A session also prepares the
    /// statement when it is first used, so one measurement is not enough.
    var shortest: Duration { latest.count > 1 ? latest.min() ?? .zero : .zero }

    /// Notes how long a statement took that costs PostgreSQL hardly anything.
    mutating func note(_ time: Duration) {
        latest.append(time)
        if latest.count > Self.memory { latest.removeFirst() }
    }
}
