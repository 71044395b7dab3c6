-- The progress of a campaign, for operators and producers. `total` is the number of recipients in jobs so far, plus
-- those of a list that were cancelled before they were in a job; `max_rate` is the campaign's own rate, in pushes a
-- second. `starts_at` is when its recipients go or went into the first jobs: for one at a local time, the time of its
-- first wave, once that is known. It is 'scheduled' until then. The counts include the outcomes in jobs that have not
-- ended, so that they are true while a campaign is paused: in jobs that workers have given back, and in jobs that they
-- hold, as of their last flush. Of `failed`, `failed_in_jobs` are in such jobs.
create or replace view pushq.campaign_progress as
select c.queue_id, c.id as campaign_id, c.key, c.created_at, c.paused_at, c.cancelled_at, f.done_at as fanned_out_at,
       f.made + f.not_made as total,
       a.delivered, a.rejected, a.failed, a.suppressed, a.expired, a.cancelled + f.not_made as cancelled, a.unknown,
       t.retried,
       f.made - (a.delivered + a.rejected + a.failed + a.suppressed + a.expired + a.cancelled + a.unknown) as waiting,
       f.done and f.made = e.ended as finished,
       r.rate as max_rate, c.stop_at_errors, c.paused_reason, c.filter, f.held_out, s.starts_at,
       case when c.cancelled_at is not null then 'cancelled' when f.done and f.made = e.ended then 'finished'
            when c.paused_at is not null then 'paused'
            when f.made = 0 and not f.done and s.starts_at > now() then 'scheduled' else 'running' end as state,
       b.failed as failed_in_jobs
from pushq.campaign c
join pushq.fan_out f on f.queue_id = c.queue_id and f.campaign_id = c.id
join pushq.queue q on q.id = c.queue_id
left join pushq.rate_limit r on r.tenant_id = q.tenant_id and r.queue_id = c.queue_id and r.campaign_id = c.id
cross join lateral (
  select sum(p.delivered)::bigint as delivered, sum(p.rejected)::bigint as rejected, sum(p.failed)::bigint as failed,
         sum(p.suppressed)::bigint as suppressed, sum(p.expired)::bigint as expired,
         sum(p.cancelled)::bigint as cancelled, sum(p.unknown)::bigint as unknown, sum(p.retried)::bigint as retried
  from pushq.campaign_tally p
  where p.queue_id = c.queue_id and p.campaign_id = c.id) t
cross join lateral (
  select t.delivered + t.rejected + t.failed + t.suppressed + t.expired + t.cancelled + t.unknown as ended) e
cross join lateral (
  select coalesce(sum(o.delivered), 0)::bigint as delivered,
         coalesce(sum(o.rejected), 0)::bigint as rejected,
         coalesce(sum(o.failed), 0)::bigint as failed,
         coalesce(sum(o.suppressed), 0)::bigint as suppressed,
         coalesce(sum(o.expired), 0)::bigint as expired,
         coalesce(sum(o.cancelled), 0)::bigint as cancelled,
         coalesce(sum(o.unknown), 0)::bigint as unknown
  from (
    select j.outcomes
    from pushq.job j
    where f.made <> e.ended and j.queue_id = c.queue_id and j.root_id = c.id and j.outcomes is not null
    union all
    -- Most leases of a fast campaign have no outcome, because they end before their first flush.
    select l.outcomes
    from pushq.lease l
    where f.made <> e.ended and l.queue_id = c.queue_id and l.root_id = c.id and btrim(l.outcomes, E'\\x00') <> '') b
  cross join lateral pushq.outcome_counts(b.outcomes) o) b
cross join lateral (
  select t.delivered + b.delivered as delivered, t.rejected + b.rejected as rejected, t.failed + b.failed as failed,
         t.suppressed + b.suppressed as suppressed, t.expired + b.expired as expired,
         t.cancelled + b.cancelled as cancelled, t.unknown + b.unknown as unknown) a
-- A start that had passed when it was given is no earlier than the campaign.
cross join lateral (
  select greatest(c.created_at, coalesce((f.clock ->> 'began')::timestamptz, f.start_at)) as starts_at) s;
