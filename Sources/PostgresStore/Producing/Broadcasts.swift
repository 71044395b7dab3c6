package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The function that every producer calls (migrations/functions/channels.sql).
    static let broadcast = Statement(
        "broadcast",
        #"""
        select pushq.broadcast(
          queue => $1, channel => $2, payload => $3::json, expiration => $4, priority => $5, replace_waiting => $6, urgent => $7,
          send_by => $8, key => $9)
        """#)
}

/// What to broadcast to a channel. PostgreSQL checks it by QueueCore's `BroadcastRules`.
package struct BroadcastDraft: Sendable {
    /// JSON, sent byte for byte: the update or the end of a Live Activity.
    package var payload: String
    /// 0, or seconds since 1970.
    package var expiration: Int64
    package var priority = BroadcastRules.defaultPriority
    /// Whether it takes the place of older ones that wait for the channel.
    package var replacesWaiting = true
    /// Passes everything else that waits.
    package var isUrgent = false
    /// Not after; nil: in 24 hours.
    package var sendBy: Date?

    package init(payload: String, expiration: Int64) {
        self.payload = payload
        self.expiration = expiration
    }
}

extension PostgresConnection {
    /// Broadcasts to a channel of a queue. Returns the root.
    ///
    /// - Parameter key: a repetition under the same key returns the first one's root.
    package func broadcast(
        _ draft: BroadcastDraft, to channel: ChannelID, ofQueue queue: String, key: String?
    ) async throws(PostgresError) -> Int64 {
        let parameters: [Parameter] = [
            .text(queue), .text(channel.text), .text(draft.payload), .int8(draft.expiration),
            .int4(Int32(draft.priority)), .bool(draft.replacesWaiting), .bool(draft.isUrgent), .time(draft.sendBy),
            .text(key),
        ]
        return try await execute(.broadcast, parameters).first?.int8(0) ?? 0
    }
}
