package import QueueCore

extension Statement {
    /// One row for each queue. `$limit`: about how many devices, jobs and results are read over all queues together, or
    /// null for all.
    ///
    /// Of jobs that have ended, the statement reads the highest ids, which are nearly always the latest ends.
    static let statistics = Statement(
        "statistics",
        #"""
        select tenant_name as tenant, app, environment, active, inactive, waiting_jobs, waiting_recipients, held_jobs,
               held_recipients, delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried,
               has_more_devices, has_more_jobs, has_more_outcomes
        from pushq.show_statistics($tenant, $limit)
        """#)
}

/// What a queue holds, and what it did in the last 24 hours.
package struct QueueStatistics: Sendable {
    package let queue: QueueName
    package let activeDevices: Int
    package let inactiveDevices: Int
    package let waitingJobs: Int
    package let waitingRecipients: Int
    package let heldJobs: Int
    package let heldRecipients: Int
    /// The outcomes of jobs that ended in the last 24 hours.
    package let tally: OutcomeTally
    /// Whether there may be more devices, jobs or outcomes, because not all were read.
    package let hasMoreDevices: Bool
    package let hasMoreJobs: Bool
    package let hasMoreOutcomes: Bool

    /// PostgreSQL reads this many devices, jobs and results in a second or less each.
    package static let usualLimit = 1_000_000

    /// Whether everything was counted.
    package var isExact: Bool { !hasMoreDevices && !hasMoreJobs && !hasMoreOutcomes }
}

extension PostgresConnection {
    /// Returns the statistics of the queues of one tenant, or of all tenants.
    /// - Parameter limit: about how many devices, jobs and results are read over all these queues together. Each queue
    ///   gets the same share, at least 100. Nil: all.
    package func statistics(
        of tenant: String?, reading limit: Int? = QueueStatistics.usualLimit
    ) async throws(PostgresError) -> [QueueStatistics] {
        try await execute(
            .statistics, ["tenant": .text(tenant), "limit": .int8(limit.map(Int64.init))],
            within: limit == nil ? Self.fileLimit : nil
        ).compactMap(QueueStatistics.init)
    }
}

extension QueueStatistics {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(
            queue: queue, activeDevices: row.count("active"), inactiveDevices: row.count("inactive"),
            waitingJobs: row.count("waiting_jobs"), waitingRecipients: row.count("waiting_recipients"),
            heldJobs: row.count("held_jobs"), heldRecipients: row.count("held_recipients"), tally: OutcomeTally(row),
            hasMoreDevices: row.bool("has_more_devices"), hasMoreJobs: row.bool("has_more_jobs"),
            hasMoreOutcomes: row.bool("has_more_outcomes"))
    }
}

extension OutcomeTally {
    /// Reads eight `bigint` columns with the names of the kinds.
    init(_ row: Row) {
        self.init()
        delivered = row.count("delivered")
        rejected = row.count("rejected")
        failed = row.count("failed")
        suppressed = row.count("suppressed")
        expired = row.count("expired")
        cancelled = row.count("cancelled")
        unknown = row.count("unknown")
        retried = row.count("retried")
    }
}
