-- The views for producers and readers: they show the tenants that the caller was granted. Views are created in the
-- order of their files' names, and these use the others.
--
-- A condition in the caller's query must not be evaluated for rows of other tenants. PostgreSQL considers comparisons
-- of most types leakproof, and so evaluates them below the barrier, in any order of joins that the caller's settings
-- ask for. Then `explain analyze` would show exactly how many rows of all tenants match, and `explain` would estimate
-- it from statistics, which cover all tenants, too. `offset 0` keeps conditions out of a view or a subquery.

-- The queues of the tenants that the caller was granted, for producers and readers. For the schema's owner, the view
-- has no rows.
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
-- They are kept for years, so a query for one key uses the index, and does not read the counts of the others. `group
-- by` serves this: a condition on the key goes into this subquery, but PostgreSQL does not reorder its joins, so the
-- condition is evaluated only for rows of one queue, which is the caller's. There are no statistics of keys
-- (0005_campaigns.sql). `distinct` keeps the planner from using the statistics of the other columns.
create or replace view pushq.my_campaigns with (security_barrier) as
select o.queue, k.key, c.created_at, c.paused_at, c.cancelled_at, c.fanned_out_at, c.total, c.delivered, c.rejected,
       c.failed, c.suppressed, c.expired, c.cancelled, c.unknown, c.retried, c.waiting, c.finished, c.max_rate,
       c.stop_at_errors, c.paused_reason, c.filter, c.held_out, c.state, c.starts_at
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

-- The actions taken on devices of the caller's tenants because of APNs' reports. It shows tokens, so logins that may
-- only read see nothing. `pushq.feedback_after` reads the same in pages, by an index.
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
