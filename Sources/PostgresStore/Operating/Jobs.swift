package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Waiting and held jobs, in the order in which they are claimed. $1 queue or null; $2 how many.
    ///
    /// Waiting ones are read in the order of their index, so many at the most, however many there are. Each of the branches for one queue and
    /// for all has a plan of its own; the other one is not begun.
    static let jobs = Statement(
        "jobs",
        #"""
        select n.tenant, n.app, n.environment, j.id, j.state, j.lane, j.run_at, j.send_by, j.recipient_count, j.attempt, j.rescues,
               j.campaign_id, j.root_id, w.name
        from (
          (select queue_id, id, 'waiting' as state, lane, run_at, send_by, recipient_count, attempt, rescues, campaign_id, root_id,
                  null::bigint as owner
           from pushq.job
           where $1::text is null
           order by queue_id, lane, run_at, id
           limit $2)
          union all
          (select queue_id, id, 'waiting', lane, run_at, send_by, recipient_count, attempt, rescues, campaign_id, root_id, null
           from pushq.job
           where queue_id = (select case when $1 is not null then pushq.queue_id($1) end)
           order by queue_id, lane, run_at, id
           limit $2)
          union all
          (select queue_id, job_id, 'held', lane, run_at, send_by, recipient_count, attempt, rescues, campaign_id, root_id, owner
           from pushq.lease
           where $1 is null or queue_id = (select case when $1 is not null then pushq.queue_id($1) end)
           order by queue_id, lane, run_at, job_id
           limit $2)
          order by queue_id, lane, run_at, id
          limit $2) j
        join pushq.queue_name n on n.queue_id = j.queue_id
        left join pushq.worker w on w.incarnation = j.owner
        order by j.queue_id, j.lane, j.run_at, j.id
        """#)

    /// What is left of a job when it has ended. $1 queue; $2 job.
    static let jobResult = Statement(
        "job_result",
        #"""
        select r.root_id, r.attempt, r.ended_at, r.delivered::bigint, r.rejected::bigint, r.failed::bigint, r.suppressed::bigint,
               r.expired::bigint, r.cancelled::bigint, r.unknown::bigint, r.retried::bigint
        from pushq.result r where r.queue_id = pushq.queue_id($1) and r.job_id = $2
        """#)
}

/// A job that waits or is held, as an operator sees it.
package struct JobSummary: Sendable {
    package let queue: QueueName
    package let id: Int64
    /// `waiting` or `held`.
    package let state: String
    package let lane: Lane?
    /// Not before; in the distant future while its campaign is paused.
    package let runAt: Date
    /// Not after.
    package let sendBy: Date
    package let recipientCount: Int
    package let attempt: Int
    /// How often a worker was lost with it.
    package let rescues: Int
    package let campaignID: Int64?
    package let rootID: Int64
    /// The worker that holds it.
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
    /// Jobs that wait or are held, of a queue or of all, those to be sent first in front.
    package func jobs(ofQueue queue: String?, limit: Int) async throws(PostgresError) -> [JobSummary] {
        try await execute(.jobs, [.text(queue), .int8(Int64(limit))]).compactMap(JobSummary.init)
    }

    /// The end of a job; nil if it has not ended, or too long ago.
    package func result(ofJob id: Int64, inQueue queue: String) async throws(PostgresError) -> JobResult? {
        try await execute(.jobResult, [.text(queue), .int8(id)]).first.map { row in
            JobResult(
                rootID: row.int8(0), attempt: Int(row.int2(1)), endedAt: row.time(2), tally: OutcomeTally(row, from: 3))
        }
    }
}

extension JobSummary {
    fileprivate init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text(2)) else { return nil }
        self.init(
            queue: QueueName(tenant: row.text(0), app: row.text(1), environment: environment), id: row.int8(3),
            state: row.text(4), lane: Lane(rawValue: row.int2(5)), runAt: row.time(6), sendBy: row.time(7),
            recipientCount: Int(row.int2(8)), attempt: Int(row.int2(9)), rescues: Int(row.int2(10)),
            campaignID: row.optionalInt8(11), rootID: row.int8(12), worker: row.optionalText(13))
    }
}
