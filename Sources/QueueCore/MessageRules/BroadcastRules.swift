/// A broadcast to a channel as a producer passes it; nothing in it has been checked yet.
package struct Broadcast: Sendable {
    /// JSON, sent byte for byte: the update or the end of a Live Activity.
    package var payload: String
    package var priority: Int
    /// 0, or seconds since 1970; nil: the producer left it out, which APNs does not accept.
    package var expiration: Int64?
    /// The policy of the channel.
    package var policy: ChannelPolicy

    package init(
        payload: String, priority: Int = BroadcastRules.defaultPriority, expiration: Int64?, policy: ChannelPolicy
    ) {
        self.payload = payload
        self.priority = priority
        self.expiration = expiration
        self.policy = policy
    }
}

/// What APNs accepts as a broadcast (Apple: "Sending broadcast push notification requests to APNs").
///
/// `pushq.broadcast_problem` (migrations/functions/message_rules.sql) finds the same errors, in the same order and
/// words.
package enum BroadcastRules {
    /// The longest payload in bytes, as sent.
    package static let maximumPayloadBytes = 5120
    /// APNs requires a priority. If the producer names none, this is the priority of a push without the header.
    package static let defaultPriority = Priority.immediate.rawValue
    /// The longest time in seconds for which APNs stores a channel's latest message.
    package static let maximumStorageSeconds: Int64 = 8 * 3600

    /// Checks `broadcast`. Returns errors and warnings in the order in which they are found.
    ///
    /// - Parameter now: seconds since 1970.
    package static func check(_ broadcast: Broadcast, now: Int64) -> [Finding] {
        let message = Message(
            payload: broadcast.payload, pushType: .liveactivity, priority: broadcast.priority)
        let limit = PayloadLimit(bytes: maximumPayloadBytes, setBy: "a broadcast")
        return PayloadCheck.findings(in: message, limit: limit, mayStart: false) + MessageRules.priority(of: message)
            + expiration(of: broadcast, now: now)
    }

    /// The first error of ``check(_:now:)``, if any.
    package static func firstError(in broadcast: Broadcast, now: Int64) -> Finding? {
        check(broadcast, now: now).first { $0.severity == .error }
    }

    private static func expiration(of broadcast: Broadcast, now: Int64) -> [Finding] {
        let ahead = "seconds since 1970 that lie ahead"
        func error(_ problem: String, _ remedy: String) -> [Finding] { [.error("expiration", problem, remedy)] }
        guard let seconds = broadcast.expiration else {
            return error(
                "the expiration is missing, which a broadcast requires",
                "use 0 for a channel that stores nothing, else \(ahead)")
        }
        if seconds >= MessageRules.maximumSeconds {
            return error("expiration \(seconds) is in milliseconds", "use seconds since 1970")
        }
        switch broadcast.policy {
        case .none where seconds != 0:
            return error("expiration \(seconds) does not go with a channel that stores nothing", "use 0")
        case .latest where seconds == 0:
            return error("expiration 0 does not go with a channel that stores the latest message", "use \(ahead)")
        case .latest where seconds < now: return error("expiration \(seconds) has passed", "use \(ahead)")
        case .latest where seconds > now + maximumStorageSeconds:
            return [
                .warning("expiration", "the expiration lies more than 8 hours ahead", "APNs keeps nothing longer")
            ]
        case .none, .latest: return []
        }
    }
}
