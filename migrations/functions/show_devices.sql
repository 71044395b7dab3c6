-- What there is to see of devices, for those who may act for the tenant: readers see counts, and no tokens.

-- Devices in the order of their ids, a page at a time: those behind `last`, the last id of the page before.
create or replace function pushq.show_devices(
  queue text, last bigint, user_key text, with_inactive boolean, most bigint
)
returns table (id bigint, token bytea, device_user text, kind text, active boolean, registered_at timestamptz,
               inactive_since timestamptz, inactive_reason smallint, reactivated_at timestamptz, installation text,
               activity_type text, activity text, locale text, time_zone text, app_version text, tags text[],
               attributes jsonb, first_seen_at timestamptz, seen_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  perform pushq.check_most(most);
  return query
  select d.id, d.token, d.user_key, d.kind, d.active, d.registered_at, d.inactive_since, d.inactive_reason,
         d.reactivated_at, p.installation, p.activity_type, p.activity, p.locale, p.time_zone, p.app_version,
         coalesce(p.tags, '{}'), nullif(p.attributes, '{}'), p.first_seen_at, greatest(d.registered_at, p.seen_at)
  from pushq.device d
  left join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
  where d.queue_id = q and d.id > last and (show_devices.user_key is null or d.user_key = show_devices.user_key)
    and (d.active or with_inactive)
  order by d.id
  limit most;
end $$;

-- The device of a token.
create or replace function pushq.show_device(queue text, token bytea)
returns table (id bigint, token_bytes bytea, device_user text, kind text, active boolean, registered_at timestamptz,
               inactive_since timestamptz, inactive_reason smallint, reactivated_at timestamptz, installation text,
               activity_type text, activity text, locale text, time_zone text, app_version text, tags text[],
               attributes jsonb, first_seen_at timestamptz, seen_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  return query
  select d.id, d.token, d.user_key, d.kind, d.active, d.registered_at, d.inactive_since, d.inactive_reason,
         d.reactivated_at, p.installation, p.activity_type, p.activity, p.locale, p.time_zone, p.app_version,
         coalesce(p.tags, '{}'), nullif(p.attributes, '{}'), p.first_seen_at, greatest(d.registered_at, p.seen_at)
  from pushq.device d
  left join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
  where d.queue_id = q and d.token = show_device.token;
end $$;

-- The latest reports about devices first. Of each day no more than `most` are read, by key, however many it has.
create or replace function pushq.show_feedback(queue text, most bigint)
returns table (device_id bigint, token bytea, user_key text, reason smallint, reported_at timestamptz,
               recorded_at timestamptz, verdict text, root_id bigint, job_id bigint, campaign_key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  perform pushq.check_most(most);
  return query
  select f.device_id, d.token, d.user_key, f.reason, f.reported_at, f.recorded_at, f.verdict, f.root_id, f.job_id,
         (select c.key from pushq.campaign c where c.queue_id = f.queue_id and c.id = f.root_id)
  from (
    select f.*
    from (
      select to_date(right(relname, 8), 'YYYYMMDD') as day
      from pg_inherits
      join pg_class c on c.oid = inhrelid
      where inhparent = 'pushq.feedback'::regclass) k
    cross join lateral (
      select * from pushq.feedback f where f.day = k.day and f.queue_id = q order by f.id desc limit most) f
    order by f.id desc
    limit most) f
  left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
  order by f.id desc;
end $$;
