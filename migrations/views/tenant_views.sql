-- What producers and readers see: of the tenants that they were granted. Views are made in the order of their
-- files' names, and these use the others.
--
-- A condition of the caller's on a column would be estimated by the statistics of the table, which are those of all
-- tenants: `explain` would tell their values one by one. So a text is an expression (`|| ''`), of which there are no
-- statistics, or no condition goes into the view (`offset 0`). A campaign's key is looked up in its index; it has no
-- statistics (0005_campaigns.sql).

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
create or replace view pushq.my_campaigns with (security_barrier) as
select n.name || '' as queue, c.key, c.created_at, c.paused_at, c.cancelled_at, c.fanned_out_at, c.total, c.delivered,
       c.rejected, c.failed, c.suppressed, c.expired, c.cancelled, c.unknown, c.retried, c.waiting, c.finished,
       c.max_rate, c.stop_at_errors, c.paused_reason || '' as paused_reason, c.filter || '' as filter, c.held_out
from pushq.tenant_login l
join pushq.queue_name n on n.tenant_id = l.tenant_id
join pushq.campaign_progress c on c.queue_id = n.queue_id
where l.login = pushq.caller();

-- What was done to the devices of these tenants because of APNs' reports. With tokens, so not for logins that may only
-- read. `pushq.feedback_after` reads it in pages.
create or replace view pushq.my_feedback with (security_barrier) as
select n.name || '' as queue, f.cursor, f.verdict || '' as verdict, r.reason, f.reported_at, f.recorded_at, f.listed_at,
       encode(d.token, 'hex') as token, d.user_key || '' as user_key, f.device_id, f.root_id, c.key as campaign_key,
       pushq.apns_id(f.root_id, f.device_id) as apns_id
from pushq.tenant_login l
join pushq.queue_name n on n.tenant_id = l.tenant_id
join pushq.feedback f on f.queue_id = n.queue_id and f.cursor is not null
cross join lateral pushq.reason(f.reason) r
left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
left join pushq.campaign c on c.queue_id = f.queue_id and c.id = f.root_id
where l.login = pushq.caller() and not l.read_only;
