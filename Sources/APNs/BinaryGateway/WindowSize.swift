/// The number of notifications of a connection that may wait for their grace. It is lower while errors are frequent.
///
/// After an error, everything that was sent after the push at fault is sent again. With a full window and one bad token
/// in ten, 500 pushes would be written in vain for each push that APNs accepts. So a window holds a few times the
/// average number of pushes between two errors, over all connections of a gateway. A longer run without an error counts
/// at once.
///
/// The connections of a gateway share one object.
final class WindowSize {
    /// The minimum, even if every token is bad: a smaller window would save less than a segment and its TLS record
    /// cost.
    static let minimum = 20
    /// The window holds this many times the average number of pushes between two errors. 98 in 100 such windows contain
    /// an error (1 - 1/e^4). With a smaller factor a window would often have to wait for its grace; with a larger one
    /// more would be sent in vain.
    private static let factor = 4
    /// The weight of a new interval in the average is one in this many.
    private static let part = 4

    private let maximum: Int
    /// The number of pushes accepted since the last error.
    private var sinceError = 0
    /// The average number of pushes between two errors; nil before the first error.
    private var interval: Int?

    /// - Parameter maximum: the size of a window while no errors come.
    init(maximum: Int) {
        self.maximum = maximum
    }

    /// The number of notifications that a connection may hold now.
    var current: Int {
        guard let interval else { return maximum }
        return min(max(Self.factor * max(interval, sinceError), Self.minimum), maximum)
    }

    /// Notes that APNs accepted this many pushes, as silence or a later error shows.
    func noteAccepted(_ count: Int) { sinceError += count }

    /// Notes an error. The server threw away what was sent after the push at fault.
    func noteError() {
        interval = interval.map { $0 + (sinceError - $0) / Self.part } ?? sinceError
        sinceError = 0
    }

    /// Notes that a connection ended without naming a notification. With command 0, every bad token ends one so.
    /// Everything in its window is uncertain and may be sent twice, so the next window is half as large.
    func noteLoss() {
        interval = max(interval ?? maximum / Self.factor, sinceError) / 2
        sinceError = 0
    }
}
