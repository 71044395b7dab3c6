/// How many notifications of a connection may wait for their grace: fewer while errors come often.
///
/// After an error everything that was sent behind it is sent again. With a full window and every tenth token bad, 500
/// pushes would be written in vain for each one that is taken. So a window holds a few times the average number of
/// pushes between two errors, taken over all connections of a gateway. A longer run without an error counts at once.
///
/// An object that the connections of a gateway share.
final class WindowSize {
    /// The minimum, where every token is bad: fewer would save less than a segment and its TLS record cost.
    static let minimum = 20
    /// The window holds this many times the average from error to error. 98 in 100 such windows contain an error (1 -
    /// 1/e^4). With a smaller factor a window would often have to wait for its grace; with a larger one more would be
    /// sent in vain.
    private static let factor = 4
    /// A new interval counts for one part in this many of the average.
    private static let part = 4

    private let maximum: Int
    /// Pushes taken since the last error.
    private var sinceError = 0
    /// The average from error to error; nil before the first.
    private var interval: Int?

    /// - Parameter maximum: what a connection may hold while no error comes.
    init(maximum: Int) {
        self.maximum = maximum
    }

    /// Notifications that a connection may hold now.
    var current: Int {
        guard let interval else { return maximum }
        return min(max(Self.factor * max(interval, sinceError), Self.minimum), maximum)
    }

    /// So many were taken, as silence or a later error says.
    func noteTaken(_ count: Int) { sinceError += count }

    /// An error threw away what was sent behind it.
    func noteError() {
        interval = interval.map { $0 + (sinceError - $0) / Self.part } ?? sinceError
        sinceError = 0
    }

    /// A connection ended without naming a notification, as every bad token does with command 0. All that it held is
    /// uncertain and may be sent twice, so the next window is half as large.
    func noteLoss() {
        interval = max(interval ?? maximum / Self.factor, sinceError) / 2
        sinceError = 0
    }
}
