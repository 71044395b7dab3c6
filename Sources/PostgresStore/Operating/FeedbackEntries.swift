package import FoundationEssentials
package import QueueCore

extension Statement {
    /// The latest first. Of each day no more than `$limit` are read, by key, however many it has.
    static let feedback = Statement(
        "feedback",
        #"""
        select f.device_id, d.token, d.user_key, f.reason, f.reported_at, f.recorded_at, f.verdict, f.root_id, f.job_id,
               (select c.key from pushq.campaign c where c.queue_id = f.queue_id and c.id = f.root_id) as key
        from (
          select pushq.queue_id($queue) as id) q
        cross join lateral (
          select f.*
          from (select to_date(right(relname, 8), 'YYYYMMDD') as day
                from pg_inherits join pg_class c on c.oid = inhrelid where inhparent = 'pushq.feedback'::regclass) k
          cross join lateral (
            select * from pushq.feedback f where f.day = k.day and f.queue_id = q.id order by f.id desc limit $limit) f
          order by f.id desc
          limit $limit) f
        left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
        order by f.id desc
        """#)
}

/// A report of APNs about a device.
package struct FeedbackEntry: Sendable {
    package let deviceID: Int64
    /// Nil if the device is gone.
    package let token: DeviceToken?
    package let userKey: String?
    package let reason: Reason
    /// The time that APNs gave, or that of the answer.
    package let reportedAt: Date
    package let recordedAt: Date
    /// `deactivated`, `kept`, `suspect` or `undone`.
    package let verdict: String
    /// The campaign or send that was answered so, and its job; nil if the feedback service said it.
    package let rootID: Int64?
    package let jobID: Int64?
    package let campaignKey: String?
}

extension PostgresConnection {
    /// The latest reports about devices of a queue.
    package func feedback(ofQueue queue: QueueName, limit: Int) async throws(PostgresError) -> [FeedbackEntry] {
        try await execute(.feedback, ["queue": .queue(queue), "limit": .int8(Int64(limit))]).map { row in
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
