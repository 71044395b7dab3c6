package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The function that every producer calls (migrations/functions/send.sql).
    static let send = Statement(
        "send",
        #"""
        select pushq.send(
          queue => $1, payload => $2::json, tokens => nullif($3::text[], '{}'), user_key => $4, push_type => $5, priority => $6,
          expiration => $7, collapse_id => $8, at_most_once => $9, urgent => $10, run_at => $11,
          send_by => $12, replace_waiting => $13, key => $14)
        """#)

    /// To all active devices of a queue.
    static let startCampaign = Statement(
        "start_campaign",
        #"""
        select pushq.start_campaign(
          queue => $1, key => $2, payload => $3::json, push_type => $4, priority => $5, expiration => $6, collapse_id => $7,
          at_most_once => $8, urgent => $9, start_at => $10, send_by => $11)
        """#)

    /// To the tokens of a list.
    static let startListCampaign = Statement(
        "start_list_campaign",
        #"""
        select pushq.start_campaign(
          queue => $1, key => $2, payload => $3::json, push_type => $4, priority => $5, expiration => $6, collapse_id => $7,
          at_most_once => $8, urgent => $9, start_at => $10, send_by => $11, list => $12)
        """#)

    /// The devices that a root's first jobs are for, and what has become of them; why there are none; whether it was cancelled.
    /// $1 queue; $2 root.
    static let rootProgress = Statement(
        "root_progress",
        #"""
        select (select coalesce(sum(cardinality(b.device_ids)), 0) from pushq.body b
                where b.queue_id = q.id and b.root_id = $2 and b.slice = 0)::bigint,
               (select b.device_ids[1] from pushq.body b
                where b.queue_id = q.id and b.root_id = $2 and b.slice = 0 order by b.first_device_id limit 1),
               coalesce(sum(r.delivered), 0)::bigint, coalesce(sum(r.rejected), 0)::bigint,
               coalesce(sum(r.failed) filter (where r.retried_at is null), 0)::bigint,
               coalesce(sum(r.suppressed), 0)::bigint, coalesce(sum(r.expired), 0)::bigint,
               coalesce(sum(r.cancelled), 0)::bigint, coalesce(sum(r.unknown), 0)::bigint,
               coalesce(sum(r.retried + case when r.retried_at is null then 0 else r.failed end), 0)::bigint,
               (select e.why from pushq.empty_send e where e.queue_id = q.id and e.root_id = $2),
               exists (select from pushq.cancelled x where x.queue_id = q.id and x.id = $2),
               exists (select from pushq.body b where b.queue_id = q.id and b.root_id = $2 and b.device_ids = '{}')
        from (select pushq.queue_id($1) as id) q
        left join pushq.result r on r.queue_id = q.id and r.root_id = $2
        group by q.id
        """#)

    static let cancelSend = Statement("cancel_send", "select stopped, held from pushq.cancel($1, $2)")
    static let cancelJob = Statement("cancel_job", "select stopped, held from pushq.cancel_job($1, $2)")
}

/// What to send, for a single send and a campaign alike. PostgreSQL checks it by QueueCore's `MessageRules` once more.
package struct MessageDraft: Sendable {
    /// JSON, sent byte for byte.
    package var payload: String
    package var pushType = PushType.alert
    /// Nil: no header.
    package var priority: Int?
    /// Nil: no header; 0: one attempt; else seconds since 1970.
    package var expiration: Int64?
    package var collapseID: String?
    /// Rather lost than sent twice.
    package var isSentAtMostOnce = false
    /// It is sent before what else waits, of its queue and within bounds of others.
    package var isUrgent = false
    /// Not before; nil: now.
    package var startAt: Date?
    /// Not after; nil: 24 hours after the start.
    package var sendBy: Date?

    /// A message of a payload.
    package init(payload: String) {
        self.payload = payload
    }

    /// What the rules for messages are about.
    package var message: Message {
        Message(
            payload: payload, pushType: pushType, priority: priority, expiration: expiration, collapseID: collapseID)
    }

    /// In the order of `start_campaign`'s parameters from $3 on.
    fileprivate var parameters: [Parameter] {
        [
            .text(payload), .text(pushType.rawValue), .int4(priority.map(Int32.init)), .int8(expiration),
            .text(collapseID), .bool(isSentAtMostOnce), .bool(isUrgent), .time(startAt), .time(sendBy),
        ]
    }
}

/// Whom a single send is for.
package enum Recipients: Sendable {
    case tokens([DeviceToken])
    /// All active devices of a user.
    case user(String)

    fileprivate var tokens: [String]? {
        if case .tokens(let tokens) = self { tokens.map(\.hex) } else { nil }
    }

    fileprivate var userKey: String? {
        if case .user(let key) = self { key } else { nil }
    }
}

/// How far a send has come.
package struct RootProgress: Sendable {
    package let total: Int
    /// The recipient, where there is only one.
    package let firstDeviceID: Int64?
    package let tally: OutcomeTally
    /// Why it reached nobody; nil if it had recipients.
    package let whyNobody: String?
    package let isCancelled: Bool
    /// It is for a user and for later: its recipients are the devices that the user has then.
    package let awaitsRecipients: Bool

    /// Whether anything is known of it: a send that was never made, or whose days are gone, has neither recipients nor a reason for that.
    package var isKnown: Bool { total > 0 || tally.ended > 0 || whyNobody != nil || awaitsRecipients }
    /// Whether every recipient has an outcome. The days of recipients may be gone sooner than those of outcomes.
    package var isFinished: Bool { !awaitsRecipients && tally.ended >= total }
}

/// What a cancellation could still stop.
package struct Cancellation: Equatable, Sendable {
    /// Recipients that are not sent to any more.
    package let stopped: Int
    /// Recipients without an outcome in the hands of workers: each is stopped within moments, unless it was sent to.
    package let held: Int

    fileprivate init(_ row: Row?) {
        stopped = Int(row?.int8(0) ?? 0)
        held = Int(row?.int8(1) ?? 0)
    }
}

extension PostgresConnection {
    /// Sends a message to a few devices. Returns the root of the send.
    ///
    /// - Parameters:
    ///   - replacesWaiting: an update of a Live Activity takes the place of those that wait for the same tokens.
    ///   - key: a repetition under the same key returns the first one's root.
    package func send(
        _ message: MessageDraft, to recipients: Recipients, ofQueue queue: String, replacesWaiting: Bool = false,
        key: String?
    ) async throws(PostgresError) -> Int64 {
        let parameters: [Parameter] = [
            .text(queue), .text(message.payload), .textArray(recipients.tokens ?? []), .text(recipients.userKey),
            .text(message.pushType.rawValue), .int4(message.priority.map(Int32.init)), .int8(message.expiration),
            .text(message.collapseID), .bool(message.isSentAtMostOnce), .bool(message.isUrgent), .time(message.startAt),
            .time(message.sendBy), .bool(replacesWaiting), .text(key),
        ]
        return try await execute(.send, parameters).first?.int8(0) ?? 0
    }

    /// Starts a campaign to all active devices of a queue, once under `key`. Returns its id.
    package func startCampaign(
        _ message: MessageDraft, key: String, inQueue queue: String
    ) async throws(PostgresError) -> Int64 {
        try await execute(.startCampaign, [.text(queue), .text(key)] + message.parameters).first?.int8(0) ?? 0
    }

    /// Starts a campaign to the tokens of a list.
    func startCampaign(
        _ message: MessageDraft, toList list: Int64, key: String, inQueue queue: String
    ) async throws(PostgresError) -> Int64 {
        let parameters: [Parameter] = [.text(queue), .text(key)] + message.parameters + [.int8(list)]
        return try await execute(.startListCampaign, parameters).first?.int8(0) ?? 0
    }

    /// How far a send has come.
    package func progress(ofRoot root: Int64, inQueue queue: String) async throws(PostgresError) -> RootProgress? {
        try await execute(.rootProgress, [.text(queue), .int8(root)]).first.map { row in
            RootProgress(
                total: Int(row.int8(0)), firstDeviceID: row.optionalInt8(1), tally: OutcomeTally(row, from: 2),
                whyNobody: row.optionalText(10), isCancelled: row.bool(11), awaitsRecipients: row.bool(12))
        }
    }

    /// Cancels a send or a broadcast; doing it again changes nothing.
    package func cancelSend(_ root: Int64, inQueue queue: String) async throws(PostgresError) -> Cancellation {
        Cancellation(try await execute(.cancelSend, [.text(queue), .int8(root)]).first)
    }

    /// Cancels a job, whatever it is of; doing it again changes nothing.
    package func cancelJob(_ id: Int64, inQueue queue: String) async throws(PostgresError) -> Cancellation {
        Cancellation(try await execute(.cancelJob, [.text(queue), .int8(id)]).first)
    }
}
