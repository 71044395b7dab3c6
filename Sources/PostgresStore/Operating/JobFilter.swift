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

/// Which jobs are meant; nil stands for all.
package struct JobFilter: Sendable {
    /// The key of their campaign.
    package var campaign: String?
    /// Of jobs that have ended: somebody in them failed for this reason. Of others: somebody in them is sent to again
    /// because of it.
    package var reason: Reason?
    /// When they ended; of those that have not, when they are due.
    package var since: Date?
    package var until: Date?

    /// All of them.
    package init() {}
}

/// A job that waits or is held, and can be cancelled.
package struct CancellableJob: Sendable {
    package let id: Int64
    package let recipientCount: Int
}

extension PostgresConnection {
    /// Jobs that have not ended and are not cancelled, in the order of their numbers.
    /// - Parameter last: only those whose number is higher, to go on after the last of a list.
    package func cancellableJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, after last: Int64 = 0, limit: Int
    ) async throws(PostgresError) -> [CancellableJob] {
        let parameters: Parameters = [
            "queue": .queue(queue), "limit": .int8(Int64(limit)), "campaign": .text(filter.campaign),
            "reason": .int4((filter.reason?.code).map(Int32.init)), "since": .time(filter.since),
            "until": .time(filter.until), "after": .int8(last),
        ]
        return try await execute(.cancellableJobs, parameters).map { row in
            CancellableJob(id: row.int8("job_id"), recipientCount: Int(row.int4("recipient_count")))
        }
    }
}
