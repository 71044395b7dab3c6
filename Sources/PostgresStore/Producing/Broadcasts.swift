package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The function that every producer calls (migrations/functions/channels.sql).
    static let broadcast = Statement(
        "broadcast",
        #"""
        select pushq.broadcast(
          queue => $queue, channel => $channel, payload => $payload::json, expiration => $expiration,
          priority => $priority, replace_waiting => $replace_waiting, urgent => $urgent,
          send_by => $send_by, key => $key)
        """#)
}

/// What to broadcast to a channel. PostgreSQL checks it against QueueCore's `BroadcastRules`.
package struct BroadcastDraft: Sendable {
    /// JSON, sent byte for byte: the update or the end of a Live Activity.
    package var payload: String
    /// 0, or seconds since 1970.
    package var expiration: Int64
    package var priority = BroadcastRules.defaultPriority
    /// Whether it replaces older broadcasts that wait for the channel.
    package var replacesWaiting = true
    /// Whether it is sent before everything else that waits in its queue.
    package var isUrgent = false
    /// The latest time to send it; nil: in 24 hours.
    package var sendBy: Date?

    package init(payload: String, expiration: Int64) {
        self.payload = payload
        self.expiration = expiration
    }
}

extension PostgresConnection {
    /// Broadcasts to a channel of a queue. Returns the root.
    ///
    /// - Parameter key: a repetition under the same key returns the first broadcast's root.
    package func broadcast(
        _ draft: BroadcastDraft, to channel: ChannelID, ofQueue queue: QueueName, key: String?
    ) async throws(PostgresError) -> Int64 {
        let parameters: Parameters = [
            "queue": .queue(queue), "channel": .text(channel.text), "payload": .text(draft.payload),
            "expiration": .int8(draft.expiration), "priority": .int4(Int32(draft.priority)),
            "replace_waiting": .bool(draft.replacesWaiting), "urgent": .bool(draft.isUrgent),
            "send_by": .time(draft.sendBy), "key": .text(key),
        ]
        return try await execute(.broadcast, parameters).one().int8("broadcast")
    }
}
