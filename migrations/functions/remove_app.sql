-- Removing an app. Its queues are gone at once; what they held is deleted in steps afterwards.

-- Removes an app with its queues. Returns the ids of the queues, of which the contents are still there; null if there
-- is no such app.
create or replace function pushq.remove_app(tenant text, bundle_id text) returns int[]
language plpgsql as $$
declare
  app    pushq.app;
  queues int[];
begin
  select a.* into app
  from pushq.app a
  join pushq.tenant t on t.id = a.tenant_id
  where t.name = tenant and a.bundle_id = remove_app.bundle_id
  for update of a;
  if not found then
    return null;
  end if;
  select coalesce(array_agg(id), '{}') into queues
  from pushq.queue q
  where q.tenant_id = app.tenant_id and q.app_id = app.id;
  insert into pushq.removed_queue (queue_id) select unnest(queues);
  delete from pushq.rate_limit r where r.tenant_id = app.tenant_id and r.queue_id = any (queues);
  delete from pushq.feedback_poll p where p.queue_id = any (queues);
  delete from pushq.judgement j where j.queue_id = any (queues);
  delete from pushq.queue q where q.tenant_id = app.tenant_id and q.app_id = app.id;
  delete from pushq.app a where a.tenant_id = app.tenant_id and a.id = app.id;
  return queues;
end $$;

-- Deletes up to `step` rows of a removed queue from one table, behind the key `after`. Returns the key of the last one,
-- or null when none is left. Taking a lease's row away fences its worker, so nothing of it is written afterwards.
-- History, messages and feedback go when their day is dropped; lists and keys of sends by the rules for their own age.
create or replace function pushq.clear_queue(q int, from_table text, after bigint, step int) returns bigint
language plpgsql as $$
declare
  key  text := case when from_table = 'lease' then 'job_id'
                    when from_table in ('fan_out', 'campaign_tally') then 'campaign_id'
                    when from_table in ('job', 'campaign', 'device', 'channel', 'feedback_record') then 'id'
                    when from_table = 'newest_update' then 'recipient_id' end;
  upto bigint;
begin
  if key is null or exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400',
      message = format('queue %s is not removed, or %s is not cleared', q, from_table);
  end if;
  execute format(
    'with old as materialized (
       select %2$I as key from pushq.%1$I where queue_id = $1 and %2$I > $2 order by %2$I limit $3),
     gone as (
       delete from pushq.%1$I t where t.queue_id = $1 and t.%2$I = any (array(select key from old)))
     select max(key) from old', from_table, key)
  into upto using q, after, step;
  return upto;
end $$;
