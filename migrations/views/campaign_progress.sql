-- The progress of a campaign, for operators and producers. `total` is the number of recipients in jobs so far, plus
-- those of a list that were cancelled before they were in a job; `max_rate` is the campaign's own rate, in pushes a
-- second.
create or replace view pushq.campaign_progress as
select c.queue_id, c.id as campaign_id, c.key, c.created_at, c.paused_at, c.cancelled_at, f.done_at as fanned_out_at,
       f.made + f.not_made as total,
       t.delivered, t.rejected, t.failed, t.suppressed, t.expired, t.cancelled + f.not_made as cancelled, t.unknown,
       t.retried,
       f.made - e.ended as waiting,
       f.done and f.made = e.ended as finished,
       r.rate as max_rate, c.stop_at_errors, c.paused_reason, c.filter, f.held_out
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
  select t.delivered + t.rejected + t.failed + t.suppressed + t.expired + t.cancelled + t.unknown as ended) e;
