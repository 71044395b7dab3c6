package import FoundationEssentials
package import QueueCore

extension Statement {
    static let registerChannel = Statement(
        "register_channel", "select pushq.register_channel($queue, $channel, $policy)")

    /// Retires channels. Returns how many of them were in use.
    static let retireChannels = Statement(
        "retire_channels",
        #"""
        with gone as (
          update pushq.channel set retired_at = now(), retired_reason = $reason::smallint, throttled_until = null
          where queue_id = pushq.queue_id($queue) and channel = any ($channels::text[]) and retired_at is null
          returning id)
        select count(*),
               pushq.note_count(
                 pushq.queue_id($queue), 'channel', 'retired', (select count(*) from gone))::text as noted
        from gone
        """#)

    static let channels = Statement(
        "channels",
        #"""
        select c.channel, c.policy, c.created_at, c.throttled_until, c.retired_at, c.retired_reason
        from pushq.channel c
        where c.queue_id = pushq.queue_id($queue)
        order by c.id
        """#)
}

/// A channel as it is stored.
package struct StoredChannel: Sendable {
    package let channel: ChannelID
    package let policy: ChannelPolicy
    package let createdAt: Date
    /// The end of a pause that APNs asked for. Nothing new is sent before it.
    package let throttledUntil: Date?
    /// When it was retired. Nothing is sent to it after that.
    package let retiredAt: Date?
    /// The reason for which APNs does not take broadcasts to it; nil if an operator deleted the channel.
    package let retiredReason: Reason?
}

extension PostgresConnection {
    /// Adds a channel to its queue, or brings it back if it was retired.
    package func registerChannel(
        _ channel: ChannelID, policy: ChannelPolicy, inQueue queue: QueueName
    ) async throws(PostgresError) {
        _ = try await execute(
            .registerChannel,
            ["queue": .queue(queue), "channel": .text(channel.text), "policy": .int4(Int32(policy.rawValue))])
    }

    /// Retires channels, so that nothing more is sent to them. Returns how many of them were in use.
    /// - Parameter reason: the reason that APNs would give for refusing a broadcast; nil if an operator has deleted the
    ///   channels.
    @discardableResult
    package func retireChannels(
        _ channels: [ChannelID], ofQueue queue: QueueName, because reason: Reason? = nil
    ) async throws(PostgresError) -> Int {
        let rows = try await execute(
            .retireChannels,
            [
                "reason": .int2(reason.map { Int16($0.code) }), "queue": .queue(queue),
                "channels": .textArray(channels.map(\.text)),
            ])
        return try rows.one().count("count")
    }

    /// Returns the channels of a queue, including retired ones, the oldest first. An unknown queue is an error.
    package func channels(ofQueue queue: QueueName) async throws(PostgresError) -> [StoredChannel] {
        try await execute(.channels, ["queue": .queue(queue)]).compactMap { row in
            guard let channel = try? ChannelID(row.text("channel")) else { return nil }
            return StoredChannel(
                channel: channel, policy: row.value("policy", as: ChannelPolicy.self),
                createdAt: row.time("created_at"),
                throttledUntil: row.optionalTime("throttled_until"), retiredAt: row.optionalTime("retired_at"),
                retiredReason: row.optionalInt2("retired_reason").map { Reason(code: UInt8(truncatingIfNeeded: $0)) })
        }
    }
}
