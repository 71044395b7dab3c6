package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Waiting and held jobs, in the order in which they are claimed.
    ///
    /// Waiting jobs are read in the order of their index, and no more than `$limit` of them. The branches for one queue
    /// and for all queues have separate plans, and PostgreSQL runs only one of them.
    static let jobs = Statement(
        "jobs",
        #"""
        select tenant, app, environment, id, state, lane, nullif(run_at, 'infinity') as run_at, send_by,
               recipient_count, attempt, losses,
               campaign_id, root_id, worker
        from pushq.show_jobs($queue, $limit)
        """#)

    /// What is stored of a job after it has ended.
    static let jobResult = Statement(
        "job_result",
        #"""
        select root_id, attempt, ended_at, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
               retried, outcomes
        from pushq.show_job($queue, $job)
        """#)
}

/// A job that waits or is held, as an operator sees it.
package struct JobSummary: Sendable {
    package let queue: QueueName
    package let id: Int64
    /// `waiting`, `held` or `set aside`.
    package let state: String
    package let lane: Lane?
    /// The earliest time to send it; nil while its campaign is paused.
    package let runAt: Date?
    /// The latest time to send it.
    package let sendBy: Date
    package let recipientCount: Int
    package let attempt: Int
    /// How often a worker was lost while it held the job, or a send of it stayed without an answer.
    package let losses: Int
    package let campaignID: Int64?
    package let rootID: Int64
    /// The worker that holds the job.
    package let worker: String?
}

/// The end of a job.
package struct JobResult: Sendable {
    package let rootID: Int64
    package let attempt: Int
    package let endedAt: Date
    package let tally: OutcomeTally
}

extension PostgresConnection {
    /// Returns waiting and held jobs of a queue or of all queues, in the order in which they are sent.
    package func jobs(ofQueue queue: QueueName?, limit: Int) async throws(PostgresError) -> [JobSummary] {
        try await execute(.jobs, ["queue": .queue(queue), "limit": .int8(Int64(limit))]).compactMap(JobSummary.init)
    }

    /// Returns the end of a job; nil if it has not ended, or ended so long ago that its result was dropped.
    package func result(ofJob id: Int64, inQueue queue: QueueName) async throws(PostgresError) -> JobResult? {
        try await execute(.jobResult, ["queue": .queue(queue), "job": .int8(id)]).first.map { row in
            var tally = OutcomeTally(row)
            tally.postponed = row.bytes("outcomes").count { Outcome(rawValue: $0).kind == .postponed }
            return JobResult(
                rootID: row.int8("root_id"), attempt: Int(row.int2("attempt")), endedAt: row.time("ended_at"),
                tally: tally)
        }
    }
}

extension JobSummary {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(
            queue: queue, id: row.int8("id"), state: row.text("state"), lane: Lane(rawValue: row.int4("lane")),
            runAt: row.optionalTime("run_at"), sendBy: row.time("send_by"),
            recipientCount: Int(row.int2("recipient_count")),
            attempt: Int(row.int2("attempt")), losses: Int(row.int2("losses")),
            campaignID: row.optionalInt8("campaign_id"), rootID: row.int8("root_id"),
            worker: row.optionalText("worker"))
    }
}
