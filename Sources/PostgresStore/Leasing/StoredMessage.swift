package import QueueCore

/// A message as it is stored.
package struct StoredMessage: Sendable {
    package let id: Int64
    /// Sent byte for byte.
    package let payload: [UInt8]
    package let pushType: PushType
    package let priority: Priority?
    package let expiration: Expiration
    package let collapseID: String?
    /// Its recipient is a channel.
    package var isBroadcast = false
}

extension StoredMessage {
    /// Stands for one that is not there any more: nothing is sent of it.
    static let missing = StoredMessage(
        id: 0, payload: [], pushType: .alert, priority: nil, expiration: .apnsDefault, collapseID: nil)

    /// Reads the columns id, payload, push_type, priority, expiration, collapse_id and is_broadcast, of which `first` is the
    /// first; nil for a push type that only a newer version knows.
    init?(_ row: Row, from first: Int) {
        guard let pushType = PushType(rawValue: row.text(first + 2)) else { return nil }
        let expiration: Expiration =
            switch row.optionalInt8(first + 4) {
            case nil: .apnsDefault
            case 0: .oneAttempt
            case let seconds?: .until(seconds)
            }
        self.init(
            id: row.int8(first), payload: Array(row.text(first + 1).utf8), pushType: pushType,
            priority: row.optionalInt2(first + 3).flatMap { Priority(rawValue: Int($0)) }, expiration: expiration,
            collapseID: row.optionalText(first + 5), isBroadcast: row.bool(first + 6))
    }
}
