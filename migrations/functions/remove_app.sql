-- Removing an app or a tenant. Their queues are removed at once; the contents of the queues are deleted in steps
-- afterwards.
--
-- Both functions first lock the tenant, then the apps, and then read the queues. So of two concurrent calls, one waits
-- and sees what the other has left, and both wait for a queue that is being added.

-- Deletes the settings of queues, and the few rows of state of each. Returns the number of rows.
create or replace function pushq.delete_settings(queues int[]) returns bigint
language plpgsql as $$
declare
  from_table text;
  step       bigint;
  gone       bigint := 0;
begin
  foreach from_table in array array[
    'rate_limit', 'frequency_cap', 'quiet_hours', 'audience', 'schedule', 'feedback_poll', 'judgement', 'fan_out_turn',
    'throughput', 'restored_queue'] loop
    execute format('delete from pushq.%I where queue_id = any ($1)', from_table) using queues;
    get diagnostics step = row_count;
    gone := gone + step;
  end loop;
  return gone;
end $$;

-- Takes queues out of use. Their contents are still there.
create or replace function pushq.remove_queues(queues int[]) returns void
language plpgsql as $$
begin
  insert into pushq.removed_queue (queue_id, tenant)
  select n.queue_id, n.tenant from pushq.queue_name n where n.queue_id = any (queues);
  perform pushq.delete_settings(queues);
  delete from pushq.queue q where q.id = any (queues);
end $$;

-- Removes an app with its queues. Returns the ids of the queues, whose contents still exist; null if the app does not
-- exist.
create or replace function pushq.remove_app(tenant text, bundle_id text) returns int[]
language plpgsql as $$
declare
  owner  int;
  app    pushq.app;
  queues int[];
begin
  select t.id into owner from pushq.tenant t where t.name = tenant for no key update;
  select a.* into app from pushq.app a where a.tenant_id = owner and a.bundle_id = remove_app.bundle_id for update;
  if not found then
    return null;
  end if;
  queues := array(select q.id from pushq.queue q where q.tenant_id = app.tenant_id and q.app_id = app.id);
  perform pushq.remove_queues(queues);
  delete from pushq.app a where a.tenant_id = app.tenant_id and a.id = app.id;
  return queues;
end $$;

-- Removes a tenant with all that it owns, except the contents of its queues. Returns the counts; no row if the tenant
-- does not exist. There are only a few rows for each queue, so it is one transaction.
create or replace function pushq.remove_tenant(tenant text)
returns table (apps bigint, queues bigint, credentials bigint, logins bigint)
language plpgsql as $$
declare
  owner int;
begin
  -- The lock prevents adding an app, a credential or a login meanwhile.
  select t.id into owner from pushq.tenant t where t.name = remove_tenant.tenant for update;
  if not found then
    return;
  end if;
  if exists (
    select from pushq.tenant_move m
    where m.tenant = remove_tenant.tenant and m.leaves and m.stage <> 'moved') then
    raise exception using errcode = 'PQ409', message = format('%s is being moved to another database', tenant),
      hint = 'finish the move, or undo it with: pushq-admin tenant move --abandon';
  elsif exists (
    select from pushq.tenant_move m where m.tenant = remove_tenant.tenant and not m.leaves and m.stage = 'arrived') then
    -- Its old database would take it back.
    raise exception using errcode = 'PQ409',
      message = format('the move of %s from %s has not ended', tenant, (
        select m.peer from pushq.tenant_move m where m.tenant = remove_tenant.tenant)),
      hint = 'run that command again; if the other database is lost for good, run it here with: '
             '--abandon --target-is-lost';
  end if;
  -- This lock prevents adding a queue.
  perform from pushq.app a where a.tenant_id = owner order by a.id for update;
  return query
    select (select count(*) from pushq.app a where a.tenant_id = owner),
           (select count(*) from pushq.queue q where q.tenant_id = owner),
           (select count(*) from pushq.credential c where c.tenant_id = owner),
           (select count(*) from pushq.tenant_login l where l.tenant_id = owner);
  perform pushq.remove_queues(array(select q.id from pushq.queue q where q.tenant_id = owner));
  delete from pushq.app a where a.tenant_id = owner;
  delete from pushq.credential c where c.tenant_id = owner;
  -- The webhook's progress is deleted with it.
  delete from pushq.webhook w where w.tenant_id = owner;
  delete from pushq.tenant_login l where l.tenant_id = owner;
  delete from pushq.rate_limit r where r.tenant_id = owner;
  delete from pushq.tenant_quota o where o.tenant_id = owner;
  delete from pushq.tenant_usage u where u.tenant_id = owner;
  delete from pushq.call c where c.tenant_id = owner;
  delete from pushq.tenant t where t.id = owner;
end $$;

-- Deletes up to `step` rows of a removed queue from one table, from the key `since` on. Returns their number, and the
-- key of the last one, which others may have; null when none is left. Deleting a lease fences its worker, so the worker
-- writes nothing of the job afterwards. Fails if a producer that found the queue in time has kept a row locked for two
-- seconds.
create or replace function pushq.clear_queue(
  q int, from_table text, since bigint, step int, out gone bigint, out last bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
  key text := case
    when from_table in ('job', 'campaign', 'device', 'channel', 'feedback_record', 'cancelled') then 'id'
    when from_table in ('fan_out', 'campaign_share', 'campaign_tally', 'wave') then 'campaign_id'
    when from_table = 'lease' then 'job_id'
    when from_table = 'stuck_job' then 'job_id'
    when from_table in ('profile', 'recent_push', 'badge') then 'device_id'
    when from_table = 'newest_update' then 'recipient_id'
    when from_table = 'empty_send' then 'root_id' end;
begin
  if key is null or exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400',
      message = format('queue %s is not removed, or %s is not cleared', q, from_table);
  end if;
  execute format(
    -- By their places: statistics that do not know the queue have the planner read all its rows for each of these keys.
    'with old as materialized (
       select ctid as place, %2$I as key
       from pushq.%1$I
       where queue_id = $1 and %2$I >= $2
       order by %2$I
       limit $3),
     gone as (
       delete from pushq.%1$I t where t.ctid = any (array(select place from old)))
     select count(*), max(key) from old', from_table, key)
  into gone, last using q, since, step;
end $$;

-- Deletes up to `step` keys of sends of a removed queue. Returns their number.
create or replace function pushq.clear_send_keys(q int, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
  gone bigint;
begin
  if exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400', message = format('queue %s is not removed', q);
  end if;
  delete from pushq.send_key k
  where k.ctid = any (array(select o.ctid from pushq.send_key o where o.queue_id = q limit step));
  get diagnostics gone = row_count;
  return gone;
end $$;

-- Deletes settings that a transaction wrote for a queue and committed after the queue was removed. Returns the number
-- of rows.
create or replace function pushq.clear_settings(q int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
begin
  if exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400', message = format('queue %s is not removed', q);
  end if;
  return pushq.delete_settings(array[q]);
end $$;

-- The existing days of history, in an order in which `pushq.clear_day` leaves nothing: recipients come before their
-- messages.
create or replace function pushq.days_of_history() returns table (parent text, day date)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.relname::text, to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD')
  from pg_class p
  join pg_inherits i on i.inhparent = p.oid
  join pg_class c on c.oid = i.inhrelid
  where p.relnamespace = 'pushq'::regnamespace and p.relname in ('body', 'feedback', 'message', 'result')
  order by 1, 2
$$;

-- The existing days of one table of history. Its keys begin with the day: a search that names no day reads all entries
-- of an index, those of other queues among them.
create or replace function pushq.days_of(history text) returns date[]
language sql stable as $$ select array(select d.day from pushq.days_of_history() d where d.parent = $1) $$;
