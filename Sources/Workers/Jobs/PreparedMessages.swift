import APNs
import PostgresStore
import QueueCore

/// The messages that a queue has used recently, in the form in which they are sent.
struct PreparedMessages {
    /// The maximum number of messages kept. Few campaigns run at the same time, and a single push is sent once.
    private static let limit = 32

    private var pushes: [Int64: (message: StoredMessage, push: PreparedPush)] = [:]

    /// Two messages have the same ID only in two copies of the database, such as a backup that is restored twice. A
    /// worker that runs on must not send one for the other, so the messages are compared.
    mutating func push(for message: StoredMessage, _ settings: QueueSettings) -> PreparedPush {
        if let kept = pushes[message.id], kept.message == message { return kept.push }
        if pushes.count == Self.limit { pushes.removeAll(keepingCapacity: true) }
        let push = Self.prepare(message, settings)
        pushes[message.id] = (message, push)
        return push
    }

    mutating func forgetAll() { pushes = [:] }

    private static func prepare(_ message: StoredMessage, _ settings: QueueSettings) -> PreparedPush {
        if message.isBroadcast {
            return PreparedPush(
                broadcastOf: settings.name.app, priority: message.priority, expiration: message.expiration,
                payload: message.payload)
        }
        return PreparedPush(
            topic: settings.name.app + message.pushType.topicSuffix, pushType: message.pushType,
            priority: message.priority, expiration: message.expiration,
            collapseID: collapseID(of: message, settings), payload: message.payload)
    }

    /// An alert without a collapse ID gets each recipient's apns-id as its collapse ID, so that a repeated push
    /// replaces the first one on the screen.
    private static func collapseID(of message: StoredMessage, _ settings: QueueSettings) -> PreparedPush.CollapseID {
        if let text = message.collapseID { return .constant(text) }
        return settings.derivesCollapseID && message.pushType == .alert ? .apnsID : .none
    }
}
