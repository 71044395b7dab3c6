package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Jobs that were set aside, the latest first.
    static let stuckJobs = Statement(
        "stuck_jobs",
        #"""
        select tenant, app, environment, job_id, root_id, campaign_key as key, recipient_count, send_by, tries,
               set_aside_at, problem
        from pushq.show_stuck_jobs($queue, $limit)
        """#)

    /// Puts the jobs back in their place: a job that is cancelled or too late ends as such.
    static let resumeJobs = Statement(
        "resume_jobs",
        #"""
        with due as (
          update pushq.job j
          set run_at = least(now(), pushq.undecided_since(j.queue_id))
          from pushq.stuck_job s
          where s.queue_id = pushq.queue_id($queue) and ($job::bigint is null or s.job_id = $job)
            and s.set_aside_at is not null
            and j.queue_id = s.queue_id and j.id = s.job_id
          returning j.queue_id, j.id),
        told as (
          delete from pushq.stuck_job s using due d where s.queue_id = d.queue_id and s.job_id = d.id)
        select (select count(*) from due) as resumed, pushq.wake(pushq.queue_id($queue))::text,
               pushq.note_count(
                 pushq.queue_id($queue), 'job', 'resumed', (select count(*) from due), $job)::text as noted
        """#)
}

/// A job that waits because PostgreSQL refuses its end.
package struct StuckJob: Sendable {
    package let queue: QueueName
    package let id: Int64
    package let rootID: Int64
    /// The key of its campaign; nil for a send.
    package let campaignKey: String?
    package let recipientCount: Int
    package let sendBy: Date
    /// How often PostgreSQL refused its end.
    package let tries: Int
    package let setAsideAt: Date
    /// The last refusal.
    package let problem: String
}

extension PostgresConnection {
    /// Returns jobs that were set aside, of a queue or of all queues, the latest first.
    package func stuckJobs(ofQueue queue: QueueName?, limit: Int) async throws(PostgresError) -> [StuckJob] {
        try await execute(.stuckJobs, ["queue": .queue(queue), "limit": .int8(Int64(limit))]).compactMap(StuckJob.init)
    }

    /// Lets workers try jobs that were set aside again: one job, or all of the queue. Returns how many.
    package func resumeJobs(ofQueue queue: QueueName, only id: Int64?) async throws(PostgresError) -> Int {
        try await execute(.resumeJobs, ["queue": .queue(queue), "job": .int8(id)]).one().count("resumed")
    }
}

extension StuckJob {
    fileprivate init?(_ row: Row) {
        guard let queue = QueueName(row) else { return nil }
        self.init(
            queue: queue, id: row.int8("job_id"), rootID: row.int8("root_id"), campaignKey: row.optionalText("key"),
            recipientCount: Int(row.int2("recipient_count")), sendBy: row.time("send_by"),
            tries: Int(row.int2("tries")),
            setAsideAt: row.time("set_aside_at"), problem: row.text("problem"))
    }
}
