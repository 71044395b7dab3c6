package import QueueCore

extension Statement {
    /// One row for each queue. `$limit`: about how many devices, jobs and results are read of all queues together, or
    /// null for all of them.
    ///
    /// Of jobs that have ended the latest ids are read, which are nearly always those that ended last.
    static let statistics = Statement(
        "statistics",
        #"""
        with shown as materialized (
          select * from pushq.queue_name n where $tenant::text is null or n.tenant = $tenant),
        bound as materialized (
          select greatest($limit::bigint / greatest(count(*), 1), case when $limit is not null then 100 end) as rows
          from shown)
        select n.tenant, n.app, n.environment, d.active, d.inactive,
               j.jobs as waiting_jobs, j.recipients as waiting_recipients,
               l.jobs as held_jobs, l.recipients as held_recipients,
               r.delivered, r.rejected, r.failed, r.suppressed, r.expired, r.cancelled, r.unknown, r.retried,
               coalesce(d.seen >= b.rows, false) as has_more_devices,
               coalesce(j.jobs >= b.rows, false) as has_more_jobs,
               coalesce(r.seen >= b.rows, false) as has_more_outcomes
        from shown n
        cross join bound b
        cross join lateral (
          select count(*) as seen, count(*) filter (where active) as active,
                 count(*) filter (where not active) as inactive
          from (select active from pushq.device where queue_id = n.queue_id order by id limit b.rows) d) d
        cross join lateral (
          select count(*) as jobs, coalesce(sum(recipient_count), 0)::bigint as recipients
          from (select recipient_count from pushq.job where queue_id = n.queue_id order by id limit b.rows) j) j
        cross join lateral (
          select count(*) as jobs, coalesce(sum(recipient_count), 0)::bigint as recipients
          from pushq.lease where queue_id = n.queue_id) l
        cross join lateral (
          select count(*) as seen,
                 coalesce(sum(delivered), 0)::bigint as delivered,
                 coalesce(sum(rejected), 0)::bigint as rejected,
                 coalesce(sum(failed) filter (where retried_at is null), 0)::bigint as failed,
                 coalesce(sum(suppressed), 0)::bigint as suppressed,
                 coalesce(sum(expired), 0)::bigint as expired,
                 coalesce(sum(cancelled), 0)::bigint as cancelled,
                 coalesce(sum(unknown), 0)::bigint as unknown,
                 coalesce(sum(retried + case when retried_at is null then 0 else failed end), 0)::bigint as retried
          from (
            select *
            from (
              (select *
               from pushq.result
               where day = pushq.today() and queue_id = n.queue_id
               order by job_id desc
               limit b.rows)
              union all
              (select *
               from pushq.result
               where day = pushq.today() - 1 and queue_id = n.queue_id
               order by job_id desc
               limit b.rows)) r
            order by day desc
            limit b.rows) r
          where ended_at > now() - interval '24 hours') r
        order by n.tenant, n.app, n.environment
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
    /// Of jobs that ended in the last 24 hours.
    package let tally: OutcomeTally
    /// There are perhaps more devices, jobs or outcomes: not all of them were read.
    package let hasMoreDevices: Bool
    package let hasMoreJobs: Bool
    package let hasMoreOutcomes: Bool

    /// So many devices, jobs and results each are read in a second or less.
    package static let usualLimit = 1_000_000

    /// Whether all of it was counted.
    package var isExact: Bool { !hasMoreDevices && !hasMoreJobs && !hasMoreOutcomes }
}

extension PostgresConnection {
    /// Statistics of the queues of one tenant, or of all.
    /// - Parameter limit: about how many devices, jobs and results are read of all these queues together, the same
    ///   number for each queue and at least 100; nil for all of them.
    package func statistics(
        of tenant: String?, reading limit: Int? = QueueStatistics.usualLimit
    ) async throws(PostgresError) -> [QueueStatistics] {
        try await execute(.statistics, ["tenant": .text(tenant), "limit": .int8(limit.map(Int64.init))]).compactMap(
            QueueStatistics.init)
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
