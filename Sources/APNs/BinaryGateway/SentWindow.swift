/// The notifications of one connection whose outcome is not known yet, oldest first: the connection has written them,
/// and silence has not confirmed them.
///
/// Identifiers count up within the connection and continue with 0 after 2^32 - 1, so a notification is found by
/// subtraction.
struct SentWindow {
    private struct Item {
        let ticket: UInt64
        /// The position after its last byte in the connection's output.
        let end: UInt64
        /// When that byte left the process, by the loop's nanoseconds; nil before.
        var leftAt: UInt64?
        /// The maximum number of notifications in the window with this one, including this one.
        let limit: Int
    }

    /// Where the notification with an identifier is.
    enum Place: Equatable {
        /// It is in the window, after `index` older ones.
        case waiting(index: Int)
        /// Silence has confirmed it already, and `laterCount` notifications after it. Everything in the window was sent
        /// after those.
        case confirmed(laterCount: Int)
        /// It was never sent over this connection.
        case unknown
    }

    private var items: [Item] = []
    /// The indices in `items` of the oldest notification, and of the first that has not left.
    private var head = 0
    private var unsentFrom = 0
    private var nextIdentifier: UInt32
    private var issuedCount: UInt64 = 0
    /// The maximum count: the lowest limit of the notifications in the window.
    private(set) var limit = Int.max

    /// - Parameter firstIdentifier: a test starts near 2^32 - 1.
    init(firstIdentifier: UInt32 = 1) {
        nextIdentifier = firstIdentifier
    }

    var count: Int { items.count - head }
    var isEmpty: Bool { count == 0 }

    /// The identifier of the next notification.
    var next: UInt32 { nextIdentifier }

    /// Whether this is the identifier before the first that was given.
    func isBeforeFirst(_ identifier: UInt32) -> Bool { UInt64(nextIdentifier &- identifier) == issuedCount + 1 }

    /// How many notifications are no longer in the window, because silence or an error has settled them.
    var settledCount: Int { Int(issuedCount) - count }

    /// Adds the notification that was written under ``next``, up to `end`.
    mutating func add(ticket: UInt64, end: UInt64, limit: Int = .max) {
        items.append(Item(ticket: ticket, end: end, limit: limit))
        self.limit = min(self.limit, limit)
        nextIdentifier &+= 1
        issuedCount += 1
    }

    /// Notes that all output before `position` has left the process.
    mutating func noteLeft(upTo position: UInt64, now: UInt64) {
        while unsentFrom < items.count, items[unsentFrom].end <= position {
            items[unsentFrom].leftAt = now
            unsentFrom += 1
        }
    }

    /// When the oldest notification left; nil if it has not.
    var oldestLeftAt: UInt64? { head < unsentFrom ? items[head].leftAt : nil }

    /// Takes the oldest notification if it left at `time` or before and all its bytes lie before `position`. Returns
    /// its ticket and when it left.
    mutating func takeConfirmed(leftBy time: UInt64, before position: UInt64) -> (ticket: UInt64, leftAt: UInt64)? {
        guard let leftAt = oldestLeftAt, leftAt <= time, items[head].end <= position else { return nil }
        return takeOldest().map { ($0.ticket, leftAt) }
    }

    /// Takes the oldest notification. `leftAt` is when its last byte left; nil if that has not.
    mutating func takeOldest() -> (ticket: UInt64, leftAt: UInt64?)? {
        guard head < items.count else { return nil }
        let item = items[head]
        head += 1
        if head > unsentFrom { unsentFrom = head }
        if item.limit < .max, item.limit == limit { limit = items[head...].lazy.map(\.limit).min() ?? .max }
        compact()
        return (item.ticket, item.leftAt)
    }

    /// Returns where the notification with `identifier` is.
    func place(of identifier: UInt32) -> Place {
        let age = UInt64(nextIdentifier &- identifier)
        // The next identifier was last used 2^32 notifications ago, if at all.
        let stepsBack = age == 0 ? 1 << 32 : age
        if stepsBack <= UInt64(count) { return .waiting(index: count - Int(stepsBack)) }
        return stepsBack <= issuedCount ? .confirmed(laterCount: Int(stepsBack) - 1 - count) : .unknown
    }

    /// Removes the settled items from the array once they are half of it.
    private mutating func compact() {
        guard head == items.count || head >= 256 && head * 2 >= items.count else { return }
        items.removeFirst(head)
        unsentFrom -= head
        head = 0
    }
}
