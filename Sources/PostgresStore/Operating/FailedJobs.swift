package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Jobs with failed recipients that were not retried, the latest first. Their reasons are codes with counts, the
    /// most frequent first: bytes 128 to 191 of the outcomes.
    static let failedJobs = Statement(
        "failed_jobs",
        #"""
        select tenant, app, environment, job_id, root_id, campaign_key as key, attempt, ended_at, failed, codes, counts
        from pushq.show_failed_jobs(
          $queue, $limit, \#(Outcome.failures.lowerBound), \#(Outcome.failures.upperBound), of_campaign => $campaign,
          reason => $reason::int, since => $since, until => $until, before => $before, looking => $looking)
        """#)

    static let retryFailed = Statement("retry_failed", "select pushq.retry_failed($queue, $job)")
    static let retryFailedCampaign = Statement(
        "retry_failed_campaign", "select pushq.retry_failed_campaign($queue, $key)")
}

/// A job that ended with recipients whose attempts were used up.
package struct FailedJob: Sendable {
    package let queue: QueueName
    package let id: Int64
    package let rootID: Int64
    /// The key of its campaign; nil for a send.
    package let campaignKey: String?
    package let attempt: Int
    package let endedAt: Date
    package let failedCount: Int
    /// The reasons of the last refusals, and how many recipients had each.
    package let reasons: [(reason: Reason, count: Int)]
}

extension PostgresConnection {
    /// Returns jobs with failed recipients that were not retried, of a queue or of all queues, the latest first.
    /// - Parameters:
    ///   - earlier: only jobs with smaller numbers, to continue after the last job of a list.
    ///   - looking: the number of jobs to search; nil: all, which may take long if few match.
    package func failedJobs(
        ofQueue queue: QueueName?, _ filter: JobFilter = JobFilter(), earlier: Int64? = nil, looking: Int? = nil,
        limit: Int
    ) async throws(PostgresError) -> [FailedJob] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "campaign": .text(filter.campaign),
            "reason": .int4((filter.reason?.code).map(Int32.init)), "since": .time(filter.since),
            "until": .time(filter.until), "before": .int8(earlier), "looking": .int8(looking.map(Int64.init)),
        ]
        return try await execute(.failedJobs, parameters).compactMap(FailedJob.init)
    }

    /// Retries the failed recipients of a job, each once. Returns how many there were.
    package func retryFailed(ofJob id: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Int {
        try await execute(.retryFailed, ["queue": .queue(queue), "job": .int8(id)]).one().count("retry_failed")
    }

    /// Returns the root of a job with failed recipients; nil if it has none that could be retried.
    package func root(ofFailedJob id: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Int64? {
        try await failedJobs(ofQueue: queue, earlier: id + 1, looking: 1, limit: 1).first { $0.id == id }?.rootID
    }

    /// Retries the failed recipients of a campaign, each once. Returns how many there were.
    package func retryFailed(ofCampaign key: String, inQueue queue: QueueName) async throws(PostgresError) -> Int {
        try await execute(
            .retryFailedCampaign, ["queue": .queue(queue), "key": .text(key)], within: Self.fileLimit
        ).one().count("retry_failed_campaign")
    }
}

extension FailedJob {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        let reasons = zip(row.int4Array("codes"), row.int4Array("counts")).map { code, count in
            (reason: Reason(code: UInt8(truncatingIfNeeded: code)), count: Int(count))
        }
        self.init(
            queue: queue, id: row.int8("job_id"), rootID: row.int8("root_id"), campaignKey: row.optionalText("key"),
            attempt: Int(row.int2("attempt")), endedAt: row.time("ended_at"), failedCount: Int(row.int2("failed")),
            reasons: reasons)
    }
}
