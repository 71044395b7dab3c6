package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The feedback of a queue, the latest first.
    static let feedback = Statement(
        "feedback",
        #"""
        select device_id, token, user_key, reason, reported_at, recorded_at, verdict, root_id, job_id,
               campaign_key as key
        from pushq.show_feedback($queue, $limit, $reason::int, $since, $until)
        """#)
}

/// A report of APNs about a device.
package struct FeedbackEntry: Sendable {
    package let deviceID: Int64
    /// Nil if the device was deleted.
    package let token: DeviceToken?
    package let userKey: String?
    package let reason: Reason
    /// The time that APNs gave, or the time of its answer.
    package let reportedAt: Date
    package let recordedAt: Date
    /// `deactivated`, `kept`, `suspect` or `undone`.
    package let verdict: String
    /// The campaign or send that got this answer, and its job; nil if it came from the feedback service.
    package let rootID: Int64?
    package let jobID: Int64?
    package let campaignKey: String?
}

extension PostgresConnection {
    /// Returns the latest feedback about devices of a queue.
    /// - Parameters:
    ///   - reason: only reports with this reason.
    ///   - since: only reports recorded from this time on, and until `until`. All three search the latest 100,000 of
    ///     each day.
    package func feedback(
        ofQueue queue: QueueName, reason: Reason? = nil, since: Date? = nil, until: Date? = nil, limit: Int
    ) async throws(PostgresError) -> [FeedbackEntry] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "reason": .int4((reason?.code).map(Int32.init)),
            "since": .time(since), "until": .time(until),
        ]
        return try await execute(.feedback, parameters).map { row in
            FeedbackEntry(
                deviceID: row.int8("device_id"),
                token: row.optionalBytes("token").flatMap { try? DeviceToken(bytes: $0) },
                userKey: row.optionalText("user_key"),
                reason: Reason(code: UInt8(truncatingIfNeeded: row.int2("reason"))),
                reportedAt: row.time("reported_at"), recordedAt: row.time("recorded_at"), verdict: row.text("verdict"),
                rootID: row.optionalInt8("root_id"), jobID: row.optionalInt8("job_id"),
                campaignKey: row.optionalText("key"))
        }
    }
}
