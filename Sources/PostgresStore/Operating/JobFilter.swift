package import FoundationEssentials
package import QueueCore

extension Statement {
    fileprivate static let cancellableJobs = Statement(
        "cancellable_jobs",
        #"""
        select job_id, recipient_count
        from pushq.show_cancellable_jobs(
          $queue, $limit, \#(Outcome.retries.lowerBound), of_campaign => $campaign, reason => $reason::int,
          since => $since, until => $until, after => $after)
        """#)
}

/// Selects jobs. A nil condition selects all jobs.
package struct JobFilter: Sendable {
    /// The key of their campaign.
    package var campaign: String?
    /// Of jobs that have ended: a recipient failed for this reason. Of other jobs: a recipient is retried because of
    /// it.
    package var reason: Reason?
    /// When they ended, or, if they have not ended, when they are due.
    package var since: Date?
    package var until: Date?

    /// Selects all jobs.
    package init() {}
}

/// A job that waits or is held, and can be cancelled.
package struct CancellableJob: Sendable {
    package let id: Int64
    package let recipientCount: Int
}

extension PostgresConnection {
    /// Returns jobs that have not ended and are not cancelled, in the order of their numbers.
    /// - Parameter last: only jobs with larger numbers, to continue after the last job of a list.
    package func cancellableJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, after last: Int64 = 0, limit: Int
    ) async throws(PostgresError) -> [CancellableJob] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "campaign": .text(filter.campaign),
            "reason": .int4((filter.reason?.code).map(Int32.init)), "since": .time(filter.since),
            "until": .time(filter.until), "after": .int8(last),
        ]
        // A rare reason may mean a look at all waiting jobs.
        let limit = filter.reason == nil ? Self.usualLimit : Self.fileLimit
        return try await execute(.cancellableJobs, parameters, within: limit).map { row in
            CancellableJob(id: row.int8("job_id"), recipientCount: Int(row.int4("recipient_count")))
        }
    }
}
