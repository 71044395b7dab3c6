import QueueCore

extension Statement {
    /// The CTE `apart`: the messages that another transaction is copying to today. A recipient that continues on
    /// another day needs its message in that day's partition, beside its body.
    ///
    /// Reads `given`, the leases with their `place`, and `sent_again`, the places of those with recipients that
    /// continue.
    static let messagesApart = #"""
        apart as materialized (
          select b.queue_id, b.message_id
          from (
            select array_agg(l.queue_id) as queues, array_agg(l.message_id) as messages, array_agg(l.body_day) as days
            from given g
            cross join lateral (
              select l.queue_id, l.message_id, l.body_day
              from pushq.lease l
              where l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
                and l.worker_id = $worker_id
              limit 1) l
            where l.body_day <> pushq.today() and g.place in (select place from sent_again)
            having count(*) > 0) a
          cross join lateral pushq.bring_messages(a.queues, a.messages, a.days) b)
        """#

    /// The CTEs that create the jobs of recipients that continue. Those of all given jobs that share message, attempt
    /// and delay go into one new job. If a job's fence failed, its recipients find no row to join, and are left to the
    /// worker that holds the job now.
    ///
    /// Reads `sent_again`, the places of the jobs that have such recipients, and `fenced`, the rows of the leases with
    /// their `place`, and in `stored` the outcomes of before the statement. `$again_…` are the recipients of all jobs.
    /// Delays are in µs, and the time at which quiet hours end counts instead; attempts and losses are added to those
    /// of the job.
    static let continuingJobs = #"""
        stopped as materialized (
          select f.place, x.id is not null as is_alone
          from sent_again p
          join fenced f on f.place = p.place
          left join pushq.cancelled x on x.queue_id = f.queue_id and x.id = f.job_id
          where x.id is not null
            or exists (select from pushq.cancelled r where r.queue_id = f.queue_id and r.id = f.root_id)
            or exists (
              select
              from pushq.campaign c
              where c.queue_id = f.queue_id and c.id = f.campaign_id and c.cancelled_at is not null)),
        -- What the recipients of a job have in common, looked up once for the job: hundreds of its recipients may
        -- continue.
        origin as materialized (
          select f.place, f.stored, f.queue_id, f.lane,
                 case when f.job_id < c.new_end_before then c.send_by else f.send_by end as send_by,
                 f.message_id, f.campaign_id, f.root_id, f.at_most_once, f.attempt, f.losses, f.run_at, m.expiration,
                 f.place in (select place from stopped) as is_stopped,
                 f.place in (select place from stopped where is_alone) as is_alone
          from sent_again p
          join fenced f on f.place = p.place
          join pushq.message m on m.day = f.body_day and m.queue_id = f.queue_id and m.id = f.message_id
          left join pushq.fan_out c on c.queue_id = f.queue_id and c.campaign_id = f.campaign_id),
        member as materialized (
          select o.queue_id, o.lane, o.send_by, o.message_id, o.campaign_id, o.root_id, o.at_most_once,
                 o.attempt + r.attempts as attempt, o.losses + r.losses as losses, o.run_at,
                 -- What was cancelled is due at once, and ends as cancelled.
                 case when o.is_stopped then 0 else r.delay end as delay,
                 case when not o.is_stopped then r.quiet_until end as quiet_until,
                 r.part, r.device_id, o.expiration, o.is_alone as is_stopped
          from unnest($again_places::bigint[], $again_ordinals::smallint[], $again_devices::bigint[],
                      $again_delays::bigint[], $again_attempts::smallint[], $again_losses::smallint[],
                      $again_groups::smallint[], $again_quiet::timestamptz[])
            as r(place, ordinal, device_id, delay, attempts, losses, part, quiet_until)
          -- Who continues elsewhere by the lease has a job already: the worker did not learn of that.
          join origin o on o.place = r.place and get_byte(o.stored, r.ordinal) < \#(Outcome.retries.lowerBound)),
        again as materialized (
          select nextval('pushq.id') as id, g.*
          from (
            select queue_id, lane, send_by, message_id, campaign_id, root_id, at_most_once, attempt, losses, delay,
                   min(run_at) as run_at, min(expiration) as expiration, is_stopped, quiet_until,
                   array_agg(device_id order by device_id) as ids
            from (
              select m.*, (row_number() over (
                       partition by queue_id, lane, send_by, message_id, root_id, attempt, losses, delay, part,
                                    is_stopped, quiet_until
                       order by device_id) - 1) / \#(SettledJob.maximumRecipients) as chunk
              from member m) s
            group by queue_id, lane, send_by, message_id, campaign_id, root_id, at_most_once, attempt, losses, delay,
                     part, is_stopped, quiet_until, chunk
            -- Jobs that are due at one time are sent in the order of their ids. What came first comes first again.
            order by min(run_at), root_id) g),
        -- If a job was cancelled by its own id, the jobs that continue it are marked, too, so that they end as
        -- cancelled.
        again_stopped as (
          insert into pushq.cancelled (queue_id, id) select queue_id, id from again where is_stopped),
        again_body as (
          insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids)
          select pushq.today(), queue_id, id, root_id, -attempt, ids[1], ids[cardinality(ids)], ids
          from again),
        again_job as (
          insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                                 recipient_count, attempt, losses, at_most_once, is_quiet)
          -- A job without a delay keeps its place in the queue. If the next attempt would be too late, the job is due
          -- when its time ends, so that it does not count as waiting until that attempt.
          select queue_id, id, lane,
                 case when delay = 0 and quiet_until is null then run_at
                      else least(coalesce(quiet_until, now() + delay * interval '1 microsecond'),
                                 greatest(now(), least(send_by, to_timestamp(nullif(expiration, 0))))) end,
                 send_by, message_id, campaign_id, root_id, pushq.today(), cardinality(ids), attempt, losses,
                 at_most_once, quiet_until is not null
          from again)
        """#
}
