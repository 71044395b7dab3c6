package import QueueCore

/// A message as it is stored.
package struct StoredMessage: Equatable, Sendable {
    package let id: Int64
    /// The payload, which is sent byte for byte.
    package let payload: [UInt8]
    package let pushType: PushType
    package let priority: Priority?
    package let expiration: Expiration
    package let collapseID: String?
    /// Whether its recipient is a channel.
    package var isBroadcast = false
    /// Whether it replaces updates of a Live Activity that wait for the same recipients and were due before it.
    package var replacesWaiting = false
}

extension StoredMessage {
    /// Stands for a message that does not exist any more. Nothing of it is sent.
    static let missing = StoredMessage(
        id: 0, payload: [], pushType: .alert, priority: nil, expiration: .apnsDefault, collapseID: nil)

    /// Reads the columns `message_id`, `payload`, `push_type`, `priority`, `expiration`, `collapse_id`,
    /// `is_broadcast` and `replaces`; nil for a push type that only a newer version knows.
    init?(_ row: Row) {
        let id = row.int8("message_id")
        guard let pushType = PushType(rawValue: row.text("push_type")) else { return nil }
        let expiration: Expiration =
            switch row.optionalInt8("expiration") {
            case nil: .apnsDefault
            case 0: .oneAttempt
            case let seconds?: .until(seconds)
            }
        self.init(
            id: id, payload: Array(row.text("payload").utf8), pushType: pushType,
            priority: row.optionalInt2("priority").flatMap { Priority(rawValue: Int($0)) }, expiration: expiration,
            collapseID: row.optionalText("collapse_id"), isBroadcast: row.bool("is_broadcast"),
            replacesWaiting: row.bool("replaces"))
    }
}
