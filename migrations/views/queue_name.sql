-- The names of queues: `name` is `tenant/app/environment`.
create or replace view pushq.queue_name as
select q.id as queue_id, t.name as tenant, a.bundle_id as app, q.environment,
       t.name || '/' || a.bundle_id || '/' || q.environment as name,
       q.tenant_id, t.suspended_at
from pushq.queue q
join pushq.app a on a.tenant_id = q.tenant_id and a.id = q.app_id
join pushq.tenant t on t.id = q.tenant_id;
