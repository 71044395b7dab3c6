import FoundationEssentials
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

    /// Starts a campaign to all active devices of its queue, or those that match its filter, once under its key.
    /// Returns its id.
    package func startCampaign(_ campaign: CampaignDraft) async throws(PostgresError) -> Int64 {
        let parameters = campaign.frame + campaign.message.parameters + ["filter": .text(campaign.filter)]
        return try await execute(.startCampaign, parameters).one().int8("start_campaign")
    }

    /// Starts a campaign to the tokens of a list.
    func startCampaign(_ campaign: CampaignDraft, toList list: Int64) async throws(PostgresError) -> Int64 {
        let parameters = campaign.frame + campaign.message.parameters + ["list": .int8(list)]
        return try await execute(.startListCampaign, parameters).one().int8("start_campaign")
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
