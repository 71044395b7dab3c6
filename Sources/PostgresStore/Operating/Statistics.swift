package import QueueCore

extension Statement {
    /// One row for each queue. History is counted from its days, of which the last two are read. $1 tenant or null.
    static let statistics = Statement(
        "statistics",
        #"""
        select n.tenant, n.app, n.environment, d.active, d.inactive, j.jobs, j.recipients, l.jobs, l.recipients,
               r.delivered, r.rejected, r.failed, r.suppressed, r.expired, r.cancelled, r.unknown, r.retried
        from pushq.queue_name n
        cross join lateral (
          select count(*) filter (where active) as active, count(*) filter (where not active) as inactive
          from pushq.device where queue_id = n.queue_id) d
        cross join lateral (
          select count(*) as jobs, coalesce(sum(recipient_count), 0)::bigint as recipients
          from pushq.job where queue_id = n.queue_id) j
        cross join lateral (
          select count(*) as jobs, coalesce(sum(recipient_count), 0)::bigint as recipients
          from pushq.lease where queue_id = n.queue_id) l
        cross join lateral (
          select coalesce(sum(delivered), 0)::bigint as delivered, coalesce(sum(rejected), 0)::bigint as rejected,
                 coalesce(sum(failed) filter (where retried_at is null), 0)::bigint as failed, coalesce(sum(suppressed), 0)::bigint as suppressed,
                 coalesce(sum(expired), 0)::bigint as expired, coalesce(sum(cancelled), 0)::bigint as cancelled,
                 coalesce(sum(unknown), 0)::bigint as unknown, coalesce(sum(retried + case when retried_at is null then 0 else failed end), 0)::bigint as retried
          from pushq.result
          where queue_id = n.queue_id and day >= pushq.today() - 1 and ended_at > now() - interval '24 hours') r
        where $1::text is null or n.tenant = $1
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
}

extension PostgresConnection {
    /// Statistics of the queues of one tenant, or of all.
    package func statistics(of tenant: String?) async throws(PostgresError) -> [QueueStatistics] {
        try await execute(.statistics, [.text(tenant)]).compactMap(QueueStatistics.init)
    }
}

extension QueueStatistics {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(2)) else { return nil }
        self.init(
            queue: QueueName(tenant: row.text(0), app: row.text(1), environment: environment),
            activeDevices: Int(row.int8(3)), inactiveDevices: Int(row.int8(4)), waitingJobs: Int(row.int8(5)),
            waitingRecipients: Int(row.int8(6)), heldJobs: Int(row.int8(7)), heldRecipients: Int(row.int8(8)),
            tally: OutcomeTally(row, from: 9))
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
