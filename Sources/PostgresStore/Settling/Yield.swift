extension Statement {
    /// Gives jobs back with their progress. The watermark is lowered to the lowest ordinal without an answer: nothing
    /// is in flight, so a deploy leaves nothing uncertain.
    ///
    /// Jobs of a paused campaign are due at infinity. The statement locks the campaign's row so that it cannot be
    /// resumed before these jobs are visible. If another transaction is pausing or resuming the campaign at this
    /// moment, the statement does not wait: the jobs go back like all others, and the next claim reads the campaign's
    /// state. Jobs of a campaign that got a lane of its own move to that lane.
    static let yield = Statement(
        "yield",
        #"""
        with given as materialized (
          select *
          from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[], $watermarks::smallint[],
                      $outcomes::bytea[], $losses::smallint[], $delays::bigint[])
            as g(queue_id, job_id, epoch, watermark, outcomes, losses, delay)),
        -- Each lease is found by its key and then by its ctid, as when jobs end (Ending.swift).
        free as materialized (
          select g.*, l.spot
          from given g
          cross join lateral (
            select ctid as spot
            from pushq.lease l
            where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
              and l.worker_id = $worker_id
            limit 1
            for update skip locked) l),
        back as (
          delete from pushq.lease l
          using free f
          where l.ctid = f.spot
          returning l.*, f.watermark as lowered, f.outcomes as known, f.losses as added, f.delay),
        aside as materialized (
          select c.queue_id, c.id
          from pushq.campaign c
          join (select distinct queue_id, campaign_id from back) b on b.queue_id = c.queue_id and b.campaign_id = c.id
          where c.paused_at is not null
          for share of c skip locked),
        given_back as (
          insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                                 recipient_count, attempt, losses, epoch, at_most_once, watermark, outcomes)
          select b.queue_id, job_id, coalesce(f.lane, b.lane),
                 -- Without a delay the job keeps its place: a deploy does not put it behind jobs that came later.
                 case when a.id is not null then 'infinity'
                      when delay = 0 or pushq.undecided_since(b.queue_id) is not null then run_at
                      else greatest(run_at, now() + delay * interval '1 microsecond') end,
                 case when job_id < f.new_end_before then f.send_by else b.send_by end, b.message_id, b.campaign_id,
                 root_id, body_day, recipient_count, attempt, losses + added, epoch, b.at_most_once, lowered, known
          from back b
          left join aside a on a.queue_id = b.queue_id and a.id = b.campaign_id
          left join pushq.fan_out f on f.queue_id = b.queue_id and f.campaign_id = b.campaign_id
          returning queue_id, id, epoch)
        select queue_id, id as job_id, epoch, true as written from given_back
        union all
        select g.queue_id, g.job_id, g.epoch, false
        from given g
        cross join lateral (
          select
          from pushq.lease l
          where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $worker_id
          limit 1) l
        where (select count(*) from back) < (select count(*) from given)
          and not exists (select from back b where b.queue_id = g.queue_id and b.job_id = g.job_id)
        """#)
}

/// A job that is given back to the waiting jobs.
package struct YieldedLease: Sendable {
    package let progress: LeaseProgress
    /// Losses to add to those of the job: pushes that stayed unanswered.
    package let addedLosses: Int
    /// How long the job waits before it may be claimed again.
    package let delay: Duration
    /// What the queue's frequency cap must learn about recipients.
    package let capNews: [CapNews]
    /// The recipients that are counted anew when they are sent to; nil if there are none.
    package let givenBackBadges: GivenBackBadges?

    package init(
        progress: LeaseProgress, addedLosses: Int = 0, delay: Duration = .zero, capNews: [CapNews] = [],
        givenBackBadges: GivenBackBadges? = nil
    ) {
        self.progress = progress
        self.addedLosses = addedLosses
        self.delay = delay
        self.capNews = capNews
        self.givenBackBadges = givenBackBadges
    }
}

extension PostgresConnection {
    /// Gives jobs back. Skips jobs that were lost meanwhile or whose lease is locked.
    @discardableResult
    package func yield(_ jobs: [YieldedLease], workerID: Int64) async throws(PostgresError) -> WrittenLeases {
        if jobs.contains(where: { !$0.capNews.isEmpty }) {
            try await note(jobs.map { ($0.progress.key, $0.capNews) }, workerID: workerID)
        }
        try await giveBack(jobs.map { ($0.progress.key, $0.givenBackBadges) }, workerID: workerID)
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "watermarks": .int2Array(jobs.map { Int16($0.progress.watermark) }),
            "outcomes": .byteaArray(jobs.map(\.progress.outcomes)),
            "losses": .int2Array(jobs.map { Int16($0.addedLosses) }),
            "delays": .int8Array(jobs.map(\.delay.wholeMicroseconds)),
        ]
        return WrittenLeases(try await execute(.yield, parameters + jobs.map(\.progress.key).parameters))
    }
}
