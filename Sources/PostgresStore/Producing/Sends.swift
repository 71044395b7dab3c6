package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The function that every producer calls (migrations/functions/send.sql).
    static let send = Statement(
        "send",
        #"""
        select pushq.send(
          queue => $queue, payload => $payload::json, tokens => nullif($tokens::text[], '{}'), user_key => $user_key,
          push_type => $push_type, priority => $priority, expiration => $expiration, collapse_id => $collapse_id,
          at_most_once => $at_most_once, urgent => $urgent, run_at => $start_at,
          send_by => $send_by, replace_waiting => $replace_waiting, key => $key,
          traceparent => $traceparent, user_keys => nullif($user_keys::text[], '{}'))
        """#)

    /// Starts a campaign to all active devices of a queue, or to the devices that match a filter.
    static let startCampaign = Statement(
        "start_campaign",
        #"""
        select pushq.start_campaign(
          queue => $queue, key => $key, payload => $payload::json, push_type => $push_type, priority => $priority,
          expiration => $expiration, collapse_id => $collapse_id,
          at_most_once => $at_most_once, urgent => $urgent, start_at => $start_at, send_by => $send_by,
          max_rate => $max_rate, stop_at_errors => $stop_at_errors, filter => $filter, local_time => $local_time,
          if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone, variants => $variants::json,
          holdout => $holdout, quiet_hours => $quiet_hours)
        """#)

    /// Starts a campaign to the tokens of a list.
    static let startListCampaign = Statement(
        "start_list_campaign",
        #"""
        select pushq.start_campaign(
          queue => $queue, key => $key, payload => $payload::json, push_type => $push_type, priority => $priority,
          expiration => $expiration, collapse_id => $collapse_id,
          at_most_once => $at_most_once, urgent => $urgent, start_at => $start_at, send_by => $send_by, list => $list,
          max_rate => $max_rate, stop_at_errors => $stop_at_errors, local_time => $local_time,
          if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone, variants => $variants::json,
          holdout => $holdout, quiet_hours => $quiet_hours)
        """#)

    /// The number of devices of a root, and the first one; how many wait, and the outcomes of the others; why there are
    /// none; whether the root was cancelled.
    static let rootProgress = Statement(
        "root_progress",
        #"""
        select total, waiting, first_device_id, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
               retried, why_nobody, is_cancelled, awaits_recipients, in_quiet_hours, released_at
        from pushq.show_send($queue, $root)
        """#)

    static let cancelSend = Statement("cancel_send", "select stopped, held from pushq.cancel($queue, $root)")
    static let cancelJob = Statement("cancel_job", "select stopped, held from pushq.cancel_job($queue, $job)")
}

/// What to send, for a send or a campaign. PostgreSQL checks it again by the rules of QueueCore's `MessageRules`.
package struct MessageDraft: Sendable {
    /// JSON, sent byte for byte.
    package var payload: String
    package var pushType = PushType.alert
    /// Nil: no header.
    package var priority: Int?
    /// Nil: no header; 0: one attempt; else seconds since 1970.
    package var expiration: Int64?
    package var collapseID: String?
    /// Whether a push is lost rather than sent twice.
    package var isSentAtMostOnce = false
    /// Whether it is sent before other waiting pushes: those of its queue, and within bounds those of other queues.
    package var isUrgent = false
    /// The earliest time to send it; nil: now.
    package var startAt: Date?
    /// The latest time to send it; nil: 24 hours after the start.
    package var sendBy: Date?

    /// A message with only a payload.
    package init(payload: String) {
        self.payload = payload
    }

    /// The part of the draft that the rules for messages check.
    package var message: Message {
        Message(
            payload: payload, pushType: pushType, priority: priority, expiration: expiration, collapseID: collapseID)
    }

    /// The parameters that can be invalid.
    var checkedParameters: Parameters {
        [
            "payload": .text(payload), "push_type": .text(pushType.rawValue),
            "priority": .int4(priority.map(Int32.init)), "expiration": .int8(expiration),
            "collapse_id": .text(collapseID), "start_at": .time(startAt), "send_by": .time(sendBy),
        ]
    }

    /// The parameters that identify a campaign to a list under its key.
    var identity: Parameters {
        [
            "payload": .text(payload), "push_type": .text(pushType.rawValue),
            "priority": .int4(priority.map(Int32.init)), "collapse_id": .text(collapseID),
            "at_most_once": .bool(isSentAtMostOnce), "urgent": .bool(isUrgent),
        ]
    }

    fileprivate var parameters: Parameters {
        checkedParameters + ["at_most_once": .bool(isSentAtMostOnce), "urgent": .bool(isUrgent)]
    }
}

/// The limits of a campaign.
package struct CampaignLimits: Sendable {
    /// Pushes per second over all workers; nil: only the limits of the queue and the tenant apply.
    package var maxRate: Double?
    /// The campaign pauses itself if a larger share of its answers is bad; nil: never.
    package var stopAtErrors: Double?
    /// Its quiet hours, such as 22:00-08:00, or `none`; nil: those of the queue.
    package var quietHours: String?

    /// No limits.
    package init() {}

    var parameters: Parameters {
        [
            "max_rate": .float8(maxRate), "stop_at_errors": .float8(stopAtErrors), "quiet_hours": .text(quietHours),
        ]
    }
}

/// The local time at which a campaign is sent. Each device gets it by the time of its own zone.
package struct CampaignClock: Sendable {
    /// What happens to devices in zones where the time has passed when the campaign starts.
    package enum Passed: String, CaseIterable, Sendable {
        case now, never
        case nextDay = "next-day"
    }

    /// `09:00`, or with a day, `2026-12-24T18:00`; nil: the campaign has no local time.
    package var localTime: String?
    /// Nil: the next day if `localTime` has no day, else never.
    package var ifPassed: Passed?
    /// How long after the local time a push is still sent at once; nil: an hour.
    package var catchUp: Duration?
    /// The zone of devices whose own zone is unknown; nil: these devices are left out.
    package var defaultZone: String?

    /// No local time.
    package init() {}

    var parameters: Parameters {
        [
            "local_time": .text(localTime), "if_passed": .text(ifPassed?.rawValue), "catch_up": .interval(catchUp),
            "default_zone": .text(defaultZone),
        ]
    }
}

/// The recipients of a send.
package enum Recipients: Sendable {
    case tokens([DeviceToken])
    /// All active devices of these users.
    case users([String])

    fileprivate var tokens: [String]? {
        if case .tokens(let tokens) = self { tokens.map(\.hex) } else { nil }
    }

    // A single user is passed as `user_key`, because the key of a send identifies one user in that form.
    fileprivate var userKey: String? {
        if case .users(let keys) = self, keys.count == 1 { keys[0] } else { nil }
    }

    fileprivate var userKeys: [String]? {
        if case .users(let keys) = self, keys.count > 1 { keys } else { nil }
    }
}

/// The progress of a send.
package struct RootProgress: Sendable {
    package let total: Int
    /// Recipients without an outcome, as far as the recipients are known.
    package let waiting: Int
    /// The device, if there is only one recipient.
    package let firstDeviceID: Int64?
    package let tally: OutcomeTally
    /// Why there are no recipients; nil if there are some.
    package let whyNobody: String?
    package let isCancelled: Bool
    /// Whether the send is for users at a later time: its recipients are the devices that they have then.
    package let awaitsRecipients: Bool
    /// How many of the waiting recipients wait for the end of their quiet hours, and when the first of them is due.
    package let inQuietHours: Int
    package let releasedAt: Date?

    /// Whether the send is known. A send that was never made, or whose days were dropped, has neither recipients nor a
    /// reason for having none.
    package var isKnown: Bool { total > 0 || whyNobody != nil || awaitsRecipients }
    /// Whether every recipient has an outcome.
    package var isFinished: Bool { !awaitsRecipients && waiting == 0 }
}

/// The result of a cancellation.
package struct Cancellation: Equatable, Sendable {
    /// Recipients that nothing more is sent to.
    package let stopped: Int
    /// Recipients without an outcome in jobs that workers hold. Each is stopped within moments, unless its push was
    /// sent.
    package let held: Int

    fileprivate init(_ row: Row) {
        stopped = row.count("stopped")
        held = row.count("held")
    }
}

extension PostgresConnection {
    /// Sends a message to a few devices. Returns the root of the send.
    ///
    /// - Parameters:
    ///   - replacesWaiting: whether an update of a Live Activity replaces those that wait for the same tokens.
    ///   - key: a repetition under the same key returns the first send's root.
    ///   - traceparent: stored with the send, and shown in its trace.
    package func send(
        _ message: MessageDraft, to recipients: Recipients, ofQueue queue: QueueName, replacesWaiting: Bool = false,
        key: String?, traceparent: TraceParent? = nil
    ) async throws(PostgresError) -> Int64 {
        let parameters: Parameters = [
            "queue": .queue(queue), "tokens": .textArray(recipients.tokens ?? []),
            "user_key": .text(recipients.userKey), "user_keys": .textArray(recipients.userKeys ?? []),
            "replace_waiting": .bool(replacesWaiting), "key": .text(key), "traceparent": .text(traceparent?.text),
        ]
        return try await execute(.send, parameters + message.parameters).one().int8("send")
    }

    /// Starts a campaign to all active devices of a queue, once under `key`. Returns its id.
    /// - Parameter filter: only devices that match it get the campaign (docs/audiences.md).
    package func startCampaign(
        _ message: MessageDraft, toDevicesWhere filter: String? = nil, key: String, inQueue queue: QueueName,
        limits: CampaignLimits = CampaignLimits(), clock: CampaignClock = CampaignClock(),
        shares: CampaignShares = CampaignShares()
    ) async throws(PostgresError) -> Int64 {
        let parameters: Parameters =
            ["queue": .queue(queue), "key": .text(key), "filter": .text(filter)] + limits.parameters + clock.parameters
            + shares.parameters
        return try await execute(.startCampaign, parameters + message.parameters).one().int8("start_campaign")
    }

    /// Starts a campaign to the tokens of a list.
    func startCampaign(
        _ message: MessageDraft, toList list: Int64, key: String, inQueue queue: QueueName, limits: CampaignLimits,
        clock: CampaignClock, shares: CampaignShares
    ) async throws(PostgresError) -> Int64 {
        let parameters: Parameters =
            ["queue": .queue(queue), "key": .text(key), "list": .int8(list)] + limits.parameters + clock.parameters
            + shares.parameters
        return try await execute(.startListCampaign, parameters + message.parameters).one().int8("start_campaign")
    }

    /// Returns the progress of a send.
    package func progress(ofRoot root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> RootProgress? {
        try await execute(.rootProgress, ["queue": .queue(queue), "root": .int8(root)]).first.map { row in
            RootProgress(
                total: row.count("total"), waiting: row.count("waiting"),
                firstDeviceID: row.optionalInt8("first_device_id"), tally: OutcomeTally(row),
                whyNobody: row.optionalText("why_nobody"), isCancelled: row.bool("is_cancelled"),
                awaitsRecipients: row.bool("awaits_recipients"), inQuietHours: row.count("in_quiet_hours"),
                releasedAt: row.optionalTime("released_at"))
        }
    }

    /// Cancels a send or a broadcast. Repeating it changes nothing.
    package func cancelSend(_ root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Cancellation {
        Cancellation(try await execute(.cancelSend, ["queue": .queue(queue), "root": .int8(root)]).one())
    }

    /// Cancels a job of any root. Repeating it changes nothing.
    package func cancelJob(_ id: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Cancellation {
        Cancellation(try await execute(.cancelJob, ["queue": .queue(queue), "job": .int8(id)]).one())
    }
}
