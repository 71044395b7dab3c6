-- What producers and readers see: of the tenants that they were granted. Views are made in the order of their
-- files' names, and these use the others.
--
-- A condition of the caller's must not meet rows of other tenants. PostgreSQL takes comparisons of most types for
-- leakproof, and so evaluates them below the barrier, in whatever order of joins the caller's settings ask for: then
-- `explain analyze` tells exactly how many rows of all tenants they fit, and `explain` estimates it by statistics,
-- which are of all tenants, too. So no condition goes into a view with `offset 0`, or into a subquery with it.

-- The queues of the tenants that the caller was granted, for producers and readers. The schema's owner has no rows
-- here.
create or replace view pushq.my_queues with (security_barrier) as
select n.name as queue, n.tenant, n.app, n.environment, not l.read_only as may_send, q.paused_at, q.paused_reason,
       t.suspended_at, p.rate, p.burst
from pushq.tenant_login l
join pushq.queue_name n on n.tenant_id = l.tenant_id
join pushq.queue q on q.id = n.queue_id
join pushq.tenant t on t.id = l.tenant_id
left join pushq.rate_limit p on p.tenant_id = q.tenant_id and p.queue_id = q.id and p.campaign_id = 0
where l.login = pushq.caller()
offset 0;

-- The campaigns of the tenants that the caller was granted, with their counts.
--
-- They are kept for years, so one is looked up by its key in the index, and the counts of the others are not read. That
-- is what `group by` is for: a condition on the key goes into this subquery, but the subquery is not joined with others
-- in another order, so it is about the rows of one queue, which is the caller's. There are no statistics of keys
-- (0005_campaigns.sql). With `distinct`, none of the other columns are looked at.
create or replace view pushq.my_campaigns with (security_barrier) as
select o.queue, k.key, c.created_at, c.paused_at, c.cancelled_at, c.fanned_out_at, c.total, c.delivered, c.rejected,
       c.failed, c.suppressed, c.expired, c.cancelled, c.unknown, c.retried, c.waiting, c.finished, c.max_rate,
       c.stop_at_errors, c.paused_reason, c.filter, c.held_out
from (
  select n.queue_id, n.name as queue
  from pushq.tenant_login l
  join pushq.queue_name n on n.tenant_id = l.tenant_id
  where l.login = pushq.caller()
  offset 0) o
cross join lateral (
  select c.queue_id, c.id, c.key
  from pushq.campaign c
  where c.queue_id = o.queue_id
  group by c.queue_id, c.id) k
cross join lateral (
  select distinct p.*
  from pushq.campaign_progress p
  where p.queue_id = k.queue_id and p.campaign_id = k.id
  offset 0) c;

-- What was done to the devices of these tenants because of APNs' reports. With tokens, so not for logins that may only
-- read. `pushq.feedback_after` reads the same in pages, by an index.
create or replace view pushq.my_feedback with (security_barrier) as
select n.name as queue, f.cursor, f.verdict, r.reason, f.reported_at, f.recorded_at, f.listed_at,
       encode(d.token, 'hex') as token, d.user_key, f.device_id, f.root_id, c.key as campaign_key,
       pushq.apns_id(f.root_id, f.device_id) as apns_id
from pushq.tenant_login l
join pushq.queue_name n on n.tenant_id = l.tenant_id
join pushq.feedback f on f.queue_id = n.queue_id and f.cursor is not null
cross join lateral pushq.reason(f.reason) r
left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
left join pushq.campaign c on c.queue_id = f.queue_id and c.id = f.root_id
where l.login = pushq.caller() and not l.read_only
offset 0;
