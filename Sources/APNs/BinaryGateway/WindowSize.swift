/// How many notifications a connection may have within their grace: the more often errors come, the fewer.
///
/// An error throws away all that was sent behind it, and that goes out again. With a full window and every tenth token bad, for
/// one push that is taken 500 would be written in vain. So a window holds a few times what is taken from one error to the next, on
/// the average over all connections of a gateway; and what silence shows to be good in one go counts at once.
struct WindowSize {
    /// Where every token is bad, so much is still written at a time: fewer would save less than their segment and its TLS record cost.
    static let least = 20
    /// So many times what is taken from error to error. An error lies within such a window 98 times in 100 (1 - 1/e^4): with fewer the
    /// end of a window would be waited for by its grace too often, with more the waste would grow and nothing be won.
    private static let factor = 4
    /// The part that a new interval has in the average.
    private static let part = 4

    private let most: Int
    /// Pushes taken since the last error.
    private var sinceError = 0
    /// The average from error to error; nil before the first.
    private var interval: Int?

    /// - Parameter most: what a connection holds as long as no error comes.
    init(most: Int) {
        self.most = most
    }

    /// Notifications that a connection may hold now.
    var current: Int {
        guard let interval else { return most }
        return min(max(Self.factor * max(interval, sinceError), Self.least), most)
    }

    /// So many were taken, as silence or a later error says.
    mutating func noteTaken(_ count: Int) { sinceError += count }

    /// An error threw away what was sent behind it.
    mutating func noteError() {
        interval = interval.map { $0 + (sinceError - $0) / Self.part } ?? sinceError
        sinceError = 0
    }

    /// A connection ended without saying whose fault that was, as with command 0 every bad token does: all that it held is uncertain
    /// and may be sent twice. So half as much is risked the next time.
    mutating func noteLoss() {
        interval = max(interval ?? most / Self.factor, sinceError) / 2
        sinceError = 0
    }
}
