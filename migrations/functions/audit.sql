-- The audit: who changed what, and when (`pushq.audit`).
--
-- Triggers write the entries, so that a change by plain SQL is recorded, too. They are on the tables of settings, not
-- on tables that workers and producers write for their work. If a table has both, its trigger covers only the columns
-- that are settings. A test classifies every table and column of the schema as one or the other.

-- Records what a statement did to a row. The trigger's arguments are the columns that are not settings. It runs with
-- the owner's rights, because a role that may change a setting need not have the right to write to the audit. Times and
-- intervals have one form, whatever the session shows them in.
create or replace function pushq.write_audit() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  before  jsonb := case when tg_op in ('UPDATE', 'DELETE') then to_jsonb(old) end;
  after   jsonb := case when tg_op in ('UPDATE', 'INSERT') then to_jsonb(new) end;
  row     jsonb := coalesce(after, before);
  queue   int   := case tg_table_name when 'queue' then row ->> 'id' else nullif(row ->> 'queue_id', '0') end;
  owner   int   := coalesce((row ->> 'tenant_id')::int, (select q.tenant_id from pushq.queue q where q.id = queue));
  tenant  text  := case tg_table_name
                     when 'tenant' then row ->> 'name'
                     else (select t.name from pushq.tenant t where t.id = owner) end;
  changes jsonb;
begin
  if tg_op = 'TRUNCATE' then
    perform pushq.note_change(null, tg_table_name, null, 'emptied', '{}');
    return null;
  end if;
  select coalesce(
    jsonb_object_agg(c.name, jsonb_strip_nulls(jsonb_build_object('from', c.before, 'to', c.after))), '{}') into changes
  from (
    select a.attname as name,
           pushq.told(before -> a.attname, a.atttypid, case tg_op when 'UPDATE' then 10000 else 200 end) as before,
           pushq.told(after -> a.attname, a.atttypid, 200) as after
    from pg_attribute a
    where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped
      and a.attname::text <> all (coalesce(tg_argv, '{}'))
      and a.attname not in ('id', 'tenant_id', 'queue_id', 'app_id', 'campaign_id', 'created_at', 'granted_at')
      and coalesce(before -> a.attname, 'null') is distinct from coalesce(after -> a.attname, 'null')) c;
  if tg_op = 'UPDATE' and changes = '{}' then
    return null;
  end if;
  -- A campaign's rate is recorded only while its queue exists, and only if the campaign is older than this transaction.
  if tg_table_name = 'rate_limit' and (row ->> 'campaign_id')::bigint <> 0 and (
    exists (select from pushq.removed_queue g where g.queue_id = queue)
    or not exists (
      select from pushq.campaign c
      where c.queue_id = queue and c.id = (row ->> 'campaign_id')::bigint and c.created_at < now())) then
    return null;
  end if;
  if changes ? 'credential_id' then
    changes := changes - 'credential_id' || jsonb_build_object('credential', jsonb_strip_nulls(jsonb_build_object(
      'from', (select c.name from pushq.credential c where c.id = (before ->> 'credential_id')::int),
      'to', (select c.name from pushq.credential c where c.id = (after ->> 'credential_id')::int))));
  end if;
  perform pushq.note_change(
    tenant, tg_table_name,
    case tg_table_name
      when 'app' then row ->> 'bundle_id'
      when 'credential' then row ->> 'name'
      when 'tenant_login' then row ->> 'login'
      -- The app may be gone by now.
      when 'queue' then concat_ws(
        '/', tenant, (select a.bundle_id from pushq.app a where a.id = (row ->> 'app_id')::int), row ->> 'environment')
      else concat_ws(
        ' ', coalesce((select n.name from pushq.queue_name n where n.queue_id = queue), tenant),
        coalesce(row ->> 'key', case when tg_table_name in ('audience', 'schedule') then row ->> 'name' end, (
          select c.key from pushq.campaign c where c.queue_id = queue and c.id = (row ->> 'campaign_id')::bigint))) end,
    case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'changed' else 'removed' end, changes);
  return null;
end $$;

-- A value as the audit shows it. Values of type bytea are not shown, because secrets and tokens have it. A value that
-- is longer than `most` characters is cut: tenants write filters and payloads, and a tenant that changes one again and
-- again must not fill the audit. The value that a change overwrites has no other copy, so it gets a larger `most`,
-- which fits any usual one.
create or replace function pushq.told(value jsonb, type oid, most int) returns jsonb
language plpgsql stable as $$
begin
  return case
    when type = 'bytea'::regtype and value <> 'null' then '"(not shown)"'
    when length(value #>> '{}') > most then to_jsonb(left(value #>> '{}', most) || '…')
    else value end;
end $$;

-- Writes an entry about an action of the caller. A program that acts for a person names the person in `pushq.program`,
-- because PostgreSQL keeps only ASCII characters of `application_name`. Any session can set either to any text: only
-- the login proves who it was.
create or replace function pushq.note_change(
  tenant text, object text, name text, action text, changes jsonb
) returns void
language plpgsql as $$
begin
  insert into pushq.audit (login, acting_as, application, address, tenant, object, name, action, changes)
  values (session_user, nullif(pushq.caller(), session_user),
          left(coalesce(nullif(current_setting('pushq.program', true), ''),
                        nullif(current_setting('application_name'), '')), 100),
          inet_client_addr(), $1, $2, $3, $4, $5);
end $$;

-- Records an action by hand on some of a queue's devices, channels, sends, jobs or users on lists; nothing if `count`
-- is 0. Those tables have no trigger, because producers and workers write them all the time. `object` is device,
-- channel, send, job or list_user; `id` is the id of the only one, never a token.
create or replace function pushq.note_count(
  q int, object text, action text, count bigint, id bigint default null
) returns void
language plpgsql as $$
begin
  if count > 0 then
    perform pushq.note_change(
      n.tenant, note_count.object, concat_ws(' ', n.name, note_count.id), note_count.action,
      jsonb_build_object(note_count.object || 's', jsonb_build_object('to', count)))
    from pushq.queue_name n
    where n.queue_id = q;
  end if;
end $$;

-- Records that failed recipients were retried by hand. No trigger sees this, because the new jobs look like any others.
-- `key` is the campaign's key; `job` is set if all these recipients are of one job.
create or replace function pushq.note_retry(q int, root bigint, key text, job bigint, count bigint) returns void
language plpgsql as $$
begin
  perform pushq.note_change(
    n.tenant, case when note_retry.key is null then 'send' else 'campaign' end,
    concat_ws(' ', n.name, coalesce(note_retry.key, root::text)), 'sent again',
    jsonb_build_object('recipients', jsonb_build_object('to', count))
      || case when job is null then '{}' else jsonb_build_object('job', jsonb_build_object('to', job)) end)
  from pushq.queue_name n
  where n.queue_id = q;
end $$;

-- Records that a campaign was given a new end. It is in a table that workers write all the time, which has no trigger.
-- The times have the form of those that triggers record.
create or replace function pushq.note_new_end(q int, key text, former timestamptz, send_by timestamptz) returns void
language plpgsql set timezone = 'UTC' as $$
begin
  perform pushq.note_change(
    n.tenant, 'campaign', concat_ws(' ', n.name, note_new_end.key), 'changed',
    jsonb_build_object('send_by', jsonb_strip_nulls(jsonb_build_object('from', former, 'to', note_new_end.send_by))))
  from pushq.queue_name n
  where n.queue_id = q;
end $$;

-- Records that a send, a broadcast, a job or several jobs were cancelled. `object` is send or job; `id` is null for
-- several jobs, and `jobs` is their number. `count` is the number of recipients that were not sent to yet.
create or replace function pushq.note_cancellation(
  q int, object text, id bigint, count bigint, jobs bigint default null
) returns void
language plpgsql as $$
begin
  perform pushq.note_change(
    n.tenant, note_cancellation.object, concat_ws(' ', n.name, note_cancellation.id), 'cancelled',
    jsonb_build_object('recipients', jsonb_build_object('to', count))
      || case when jobs is null then '{}' else jsonb_build_object('jobs', jsonb_build_object('to', jobs)) end)
  from pushq.queue_name n
  where n.queue_id = q;
end $$;

-- Refuses to change an entry, or to delete one before its time. There are no exceptions for any role: only the entry's
-- age decides.
create or replace function pushq.guard_audit() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    if old.changed_at < now() - make_interval(days => pushq.audit_days(old.tenant, old.changed_at)) then
      return old;
    end if;
  end if;
  raise exception using errcode = 'PQ409', message = 'entries of the audit cannot be changed or deleted by hand',
    hint = 'workers delete them in the end; set the time with: pushq-admin tenant set TENANT --audit-days DAYS';
end $$;

-- The number of days for which entries about a tenant are kept; null stands for entries about no tenant. With
-- `changed_at`, the result is at least the setting of a tenant of this name that was removed after that time.
create or replace function pushq.audit_days(tenant text, changed_at timestamptz default null) returns int
language plpgsql stable as $$
begin
  return greatest(
    coalesce((select t.audit_days from pushq.tenant t where t.name = $1), 365),
    (select f.audit_days from pushq.former_tenant f where f.name = $1 and f.removed_at >= $2));
end $$;

-- Remembers how long the entries of a removed tenant are kept. A tenant that moves takes its entries along, and leaves
-- only a copy behind.
create or replace function pushq.keep_audit_days() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (
    select from pushq.tenant_move m
    where m.tenant = old.name and m.owner = old.id and m.leaves and m.stage <> 'moved')
  then
    insert into pushq.former_tenant as f (name, audit_days, removed_at)
    values (old.name, coalesce(old.audit_days, pushq.audit_days(null)), clock_timestamp())
    on conflict on constraint former_tenant_pkey do update
    set audit_days = greatest(f.audit_days, excluded.audit_days), removed_at = excluded.removed_at;
  end if;
  return null;
end $$;

-- Deletes up to `step` entries whose time has passed. Returns their number. A detached tenant's setting is not at hand,
-- and it may still continue here.
--
-- Entries that are older than usual are found by their age. Those of tenants that keep theirs for a shorter time are
-- found for each such tenant: otherwise one of them would make this read the entries of all others, hour after hour.
create or replace function pushq.forget_audit(step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '1s' set enable_seqscan = off set jit = off as $$
declare
  usual int := pushq.audit_days(null);
  gone  bigint;
begin
  delete from pushq.audit
  where id = any (array(
    (select a.id
     from pushq.audit a
     left join pushq.tenant t on t.name = a.tenant
     left join pushq.former_tenant f on f.name = a.tenant and f.removed_at >= a.changed_at
     where a.changed_at < now() - make_interval(days => usual)
       and a.changed_at < now() - make_interval(days => greatest(coalesce(t.audit_days, usual), f.audit_days))
       and not exists (
         select from pushq.tenant_move m where m.tenant = a.tenant and m.leaves and m.stage = 'detached')
     limit step)
    union
    (select o.id
     from pushq.tenant t
     cross join lateral (
       select a.id
       from pushq.audit a
       left join pushq.former_tenant f on f.name = a.tenant and f.removed_at >= a.changed_at
       where a.tenant = t.name
         and a.changed_at < now() - make_interval(days => t.audit_days)
         and a.changed_at < now() - make_interval(days => greatest(t.audit_days, f.audit_days))
       order by a.changed_at
       limit step) o
     where t.audit_days < usual
       and not exists (
         select from pushq.tenant_move m where m.tenant = t.name and m.leaves and m.stage = 'detached')
     limit step)
    limit step));
  get diagnostics gone = row_count;
  delete from pushq.former_tenant f where f.removed_at < now() - make_interval(days => f.audit_days);
  return gone;
end $$;

create or replace trigger audit_guard before update or delete on pushq.audit
  for each row execute function pushq.guard_audit();
create or replace trigger audit_guard_truncate before truncate on pushq.audit
  for each statement execute function pushq.guard_audit();

create or replace trigger audit after insert or update or delete on pushq.tenant
  for each row execute function pushq.write_audit();
-- Its name sorts after `audit`, so it runs after the trigger that records the removal.
create or replace trigger audit_days after delete on pushq.tenant
  for each row execute function pushq.keep_audit_days();
create or replace trigger audit after insert or update or delete on pushq.tenant_login
  for each row execute function pushq.write_audit();
create or replace trigger audit after insert or update or delete on pushq.tenant_quota
  for each row execute function pushq.write_audit();
create or replace trigger audit after insert or update or delete on pushq.app
  for each row execute function pushq.write_audit();
-- Each secret has a version, and a refused one gets another one when it is tried again: nobody has changed it.
create or replace trigger audit after insert or update or delete on pushq.credential
  for each row execute function pushq.write_audit('warned_days', 'version', 'replaced_at');
create or replace trigger audit after insert or update or delete on pushq.webhook
  for each row execute function pushq.write_audit();
create or replace trigger audit after insert or update or delete on pushq.queue
  for each row execute function pushq.write_audit('credential_refusals');
-- Permits move `tat` several times a second. The initial rate of a campaign is part of starting it.
create or replace trigger audit_insert after insert on pushq.rate_limit
  for each row execute function pushq.write_audit('tat');
create or replace trigger audit_update after update of rate, burst on pushq.rate_limit
  for each row execute function pushq.write_audit('tat');
create or replace trigger audit_delete after delete on pushq.rate_limit
  for each row execute function pushq.write_audit('tat');
create or replace trigger audit after insert or update or delete on pushq.frequency_cap
  for each row execute function pushq.write_audit('set_at');
create or replace trigger audit after insert or update or delete on pushq.quiet_hours
  for each row execute function pushq.write_audit('set_at');
create or replace trigger audit after insert or update or delete on pushq.audience
  for each row execute function pushq.write_audit();
-- Workers write the columns about its runs.
create or replace trigger audit after insert or update or delete on pushq.schedule
  for each row execute function pushq.write_audit(
    'next_at', 'run_at', 'started_at', 'missed_at', 'tried_at', 'problem', 'failures', 'retry_at');
-- Starting a campaign is a producer's work. Stopping it is a decision to record.
create or replace trigger audit after update of paused_at, cancelled_at, stop_at_errors on pushq.campaign
  for each row execute function pushq.write_audit('forgiven_at', 'forgiven', 'forgiven_bad');

create or replace trigger audit_truncate after truncate on pushq.tenant
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.tenant_login
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.tenant_quota
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.app
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.credential
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.webhook
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.queue
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.rate_limit
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.frequency_cap
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.quiet_hours
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.audience
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.schedule
  for each statement execute function pushq.write_audit();
create or replace trigger audit_truncate after truncate on pushq.campaign
  for each statement execute function pushq.write_audit();
