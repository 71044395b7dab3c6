package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The history of notifications (migrations/functions/trace.sql).
    fileprivate static let trace = Statement(
        "trace",
        #"""
        select device_id, token_start, root_id, campaign_key, apns_id::text, at, what, job_id, attempt, worker, status,
               reason, traceparent, is_found
        from pushq.trace(
          $queue, token => $token, user_key => $user_key, send => $send, campaign => $campaign, device => $device,
          most => $limit, since => $since, until => $until)
        """#)
}

/// What to trace.
package struct TraceQuery: Sendable {
    /// The recipients whose notifications are traced.
    package enum Subject: Sendable {
        case token(DeviceToken)
        case user(String)
        /// A device by its number, as an `apns-id` contains it.
        case device(Int64)
        /// The first recipients of the send.
        case recipients
    }

    package var subject: Subject
    /// Only this send or campaign, by its number.
    package var root: Int64?
    /// Only the campaign with this key.
    package var campaign: String?
    /// Only what was in jobs that ended from this time on; not together with a root or campaign.
    package var since: Date?
    /// Only what was in jobs that ended up to this time; not together with a root or campaign.
    package var until: Date?
    /// The maximum number of campaigns and sends.
    package var limit = 10

    package init(_ subject: Subject) {
        self.subject = subject
    }
}

/// An event of a notification, or the reason why nothing was sent.
package struct TraceStep: Sendable {
    package let deviceID: Int64?
    /// The token's first digits.
    package let tokenStart: String?
    /// The send or campaign; nil if the event concerns the device itself.
    package let rootID: Int64?
    package let campaignKey: String?
    package let apnsID: String?
    package let at: Date?
    /// The event in words.
    package let what: String
    package let jobID: Int64?
    package let attempt: Int?
    /// The name of the worker while it runs, and its number afterwards.
    package let worker: String?
    /// The HTTP status of APNs' answer.
    package let status: Int?
    package let reason: String?
    /// The `traceparent` that the producer gave with the send; nil if the event concerns the device itself.
    package let traceparent: String?
    /// False: there is no such device, user or send.
    package let isFound: Bool
}

extension PostgresConnection {
    /// Returns every attempt of a notification in order, or why there was none.
    package func trace(_ query: TraceQuery, inQueue queue: QueueName) async throws(PostgresError) -> [TraceStep] {
        var token: String?
        var user: String?
        var device: Int64?
        switch query.subject {
        case .token(let value): token = value.hex
        case .user(let key): user = key
        case .device(let id): device = id
        case .recipients: break
        }
        return try await execute(
            .trace,
            [
                "queue": .queue(queue), "token": .text(token), "user_key": .text(user), "send": .int8(query.root),
                "campaign": .text(query.campaign), "device": .int8(device),
                "limit": .int4(Int32(clamping: query.limit)), "since": .time(query.since),
                "until": .time(query.until),
            ]
        ).map { row in
            TraceStep(
                deviceID: row.optionalInt8("device_id"), tokenStart: row.optionalText("token_start"),
                rootID: row.optionalInt8("root_id"), campaignKey: row.optionalText("campaign_key"),
                apnsID: row.optionalText("apns_id"), at: row.optionalTime("at"), what: row.text("what"),
                jobID: row.optionalInt8("job_id"), attempt: row.optionalInt2("attempt").map(Int.init),
                worker: row.optionalText("worker"), status: row.optionalInt4("status").map(Int.init),
                reason: row.optionalText("reason"), traceparent: row.optionalText("traceparent"),
                isFound: row.bool("is_found"))
        }
    }
}
