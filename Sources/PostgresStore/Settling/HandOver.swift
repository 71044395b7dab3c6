import QueueCore

extension Statement {
    /// Creates the jobs in which recipients of held jobs continue, before these jobs end: they wait for answers, and
    /// the recipients need not. The leases are kept. Their outcomes say from now on which recipients continue
    /// elsewhere.
    ///
    /// Repeating the statement is harmless: a recipient of whom the lease says so already gets no other job. As a
    /// flush, the statement is numbered and does not wait for locked rows.
    static let handOver = Statement(
        "hand_over",
        #"""
        with given as materialized (
          select g.*
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $watermarks::smallint[],
                      $outcomes::bytea[]) with ordinality
            as g(queue_id, job_id, epoch, watermark, outcomes, place)
          -- Called once for the statement: the table of leases may have grown since it was planned.
          cross join pushq.fit_plans()),
        sent_again as materialized (select place from given),
        \#(messagesApart),
        -- Each lease is found by its key and then by its ctid, as when jobs end (Ending.swift).
        free as materialized (
          select g.*, l.spot, l.stored
          from given g
          cross join lateral (
            select l.ctid as spot, l.queue_id, l.message_id, l.outcomes as stored
            from pushq.lease l
            where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
              and l.worker_id = $worker_id and l.flush <= $number
            limit 1
            for no key update skip locked) l
          where not exists (select from apart a where a.queue_id = l.queue_id and a.message_id = l.message_id)),
        fenced as materialized (
          update pushq.lease l
          set watermark = g.watermark, outcomes = g.outcomes, deadline = now() + $lease::interval, flush = $number
          from free g
          where l.ctid = g.spot
          returning l.queue_id, l.job_id, l.epoch, l.lane, l.run_at, l.send_by, l.message_id, l.campaign_id, l.root_id,
                    l.body_day, l.attempt, l.losses, l.at_most_once, g.place, g.stored),
        \#(continuingJobs),
        kept as (select * from fenced)
        """# + keptLeases)
}

/// Recipients of a held job that continue in another job from now on.
package struct HandOver: Sendable {
    /// The progress of the held job. It tells of these recipients that they continue elsewhere.
    package let progress: LeaseProgress
    package let recipients: [ContinuingRecipient]
    /// What the queue's frequency cap must learn about them, and about others that got nothing.
    package let capNews: [CapNews]
    /// Those among the recipients that are counted anew when they are sent to; nil if there are none.
    package let givenBackBadges: GivenBackBadges?

    package init(
        progress: LeaseProgress, recipients: [ContinuingRecipient], capNews: [CapNews] = [],
        givenBackBadges: GivenBackBadges? = nil
    ) {
        self.progress = progress
        self.recipients = recipients
        self.capNews = capNews
        self.givenBackBadges = givenBackBadges
    }
}

extension PostgresConnection {
    /// Hands recipients of held jobs over to other jobs, and renews the leases for the time `lease`.
    /// - Parameter number: as in ``flush(_:workerID:lease:number:)``, and with the same count.
    package func handOver(
        _ jobs: [HandOver], workerID: Int64, lease: Duration, number: Int64
    ) async throws(PostgresError) -> KeptLeases {
        if jobs.contains(where: { !$0.capNews.isEmpty }) {
            try await note(jobs.map { ($0.progress.key, $0.capNews) }, workerID: workerID)
        }
        try await giveBack(jobs.map { ($0.progress.key, $0.givenBackBadges) }, workerID: workerID)
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "lease": .interval(lease), "number": .int8(number),
            "watermarks": .int2Array(jobs.map { Int16($0.progress.watermark) }),
            "outcomes": .byteaArray(jobs.map(\.progress.outcomes)),
        ]
        return KeptLeases(
            try await execute(
                .handOver,
                parameters + jobs.map(\.recipients).parameters + jobs.map(\.progress.key).parameters))
    }
}
