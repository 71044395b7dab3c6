package import QueueCore

extension Statement {
    /// One row for each queue. $1 tenant or null; $2 about how many devices, jobs and results are read of all queues together, or null for
    /// all of them.
    ///
    /// Of jobs that have ended the latest ids are read, which are nearly always those that ended last.
    static let statistics = Statement(
        "statistics",
        #"""
        with shown as materialized (
          select * from pushq.queue_name n where $1::text is null or n.tenant = $1),
        bound as materialized (
          select greatest($2::bigint / greatest(count(*), 1), case when $2 is not null then 100 end) as rows from shown)
        select n.tenant, n.app, n.environment, d.active, d.inactive, j.jobs, j.recipients, l.jobs, l.recipients,
               r.delivered, r.rejected, r.failed, r.suppressed, r.expired, r.cancelled, r.unknown, r.retried,
               coalesce(d.seen >= b.rows, false), coalesce(j.jobs >= b.rows, false), coalesce(r.seen >= b.rows, false)
        from shown n
        cross join bound b
        cross join lateral (
          select count(*) as seen, count(*) filter (where active) as active, count(*) filter (where not active) as inactive
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
              (select * from pushq.result where day = pushq.today() and queue_id = n.queue_id order by job_id desc limit b.rows)
              union all
              (select * from pushq.result where day = pushq.today() - 1 and queue_id = n.queue_id order by job_id desc limit b.rows)) r
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
    /// - Parameter limit: about how many devices, jobs and results are read of all these queues together, the same number for each queue
    ///   and at least 100; nil for all of them.
    package func statistics(
        of tenant: String?, reading limit: Int? = QueueStatistics.usualLimit
    ) async throws(PostgresError) -> [QueueStatistics] {
        try await execute(.statistics, [.text(tenant), .int8(limit.map(Int64.init))]).compactMap(QueueStatistics.init)
    }
}

extension QueueStatistics {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(2)) else { return nil }
        self.init(
            queue: QueueName(tenant: row.text(0), app: row.text(1), environment: environment),
            activeDevices: Int(row.int8(3)), inactiveDevices: Int(row.int8(4)), waitingJobs: Int(row.int8(5)),
            waitingRecipients: Int(row.int8(6)), heldJobs: Int(row.int8(7)), heldRecipients: Int(row.int8(8)),
            tally: OutcomeTally(row, from: 9), hasMoreDevices: row.bool(17), hasMoreJobs: row.bool(18),
            hasMoreOutcomes: row.bool(19))
    }
}

extension OutcomeTally {
    /// Eight `bigint` columns in the order of the kinds, beginning at `column`.
    init(_ row: Row, from column: Int) {
        self.init()
        delivered = Int(row.int8(column))
        rejected = Int(row.int8(column + 1))
        failed = Int(row.int8(column + 2))
        suppressed = Int(row.int8(column + 3))
        expired = Int(row.int8(column + 4))
        cancelled = Int(row.int8(column + 5))
        unknown = Int(row.int8(column + 6))
        retried = Int(row.int8(column + 7))
    }
}
