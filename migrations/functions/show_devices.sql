-- Showing devices to logins that may act for the tenant. Readers see counts, but no tokens.

-- What is shown of a queue's devices. It is in SQL, so that the planner inlines it into the query that selects devices.
--
-- The profile of each device is a subquery (`offset 0`), which finds it by its key. With a plain join, for a queue that
-- has just been imported and has no statistics yet, PostgreSQL looped over all profiles for each device.
create or replace function pushq.shown_devices(q int)
returns table (id bigint, token bytea, device_user text, kind text, active boolean, registered_at timestamptz,
               inactive_since timestamptz, inactive_reason smallint, reactivated_at timestamptz, installation text,
               activity_type text, activity text, locale text, time_zone text, app_version text, tags text[],
               attributes jsonb, first_seen_at timestamptz, seen_at timestamptz)
language sql stable as $$
  select d.id, d.token, d.user_key, d.kind, d.active, d.registered_at, d.inactive_since, d.inactive_reason,
         d.reactivated_at, p.installation, p.activity_type, p.activity, p.locale, p.time_zone, p.app_version,
         coalesce(p.tags, '{}'), nullif(p.attributes, '{}'), p.first_seen_at, greatest(d.registered_at, p.seen_at)
  from pushq.device d
  left join lateral (
    select * from pushq.profile p where p.queue_id = d.queue_id and p.device_id = d.id offset 0) p on true
  where d.queue_id = q
$$;

-- Devices in the order of their ids, one page at a time: those after `last`, the last id of the page before. With
-- `of_kind`, those whose token is of that kind; with `filter`, the active ones that match it, of kind alert unless
-- another kind is given. The search covers the first million devices after `last`.
create or replace function pushq.show_devices(
  queue text, last bigint, user_key text, with_inactive boolean, most bigint, of_kind text default null,
  filter text default null
)
returns table (id bigint, token bytea, device_user text, kind text, active boolean, registered_at timestamptz,
               inactive_since timestamptz, inactive_reason smallint, reactivated_at timestamptz, installation text,
               activity_type text, activity text, locale text, time_zone text, app_version text, tags text[],
               attributes jsonb, first_seen_at timestamptz, seen_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q      int := (pushq.enter(queue, sends => false)).q;
  budget int := 1000000;
  found  bigint[];
begin
  perform pushq.check_row_limit(most);
  if pushq.kind_problem(of_kind) is not null then
    raise exception using errcode = 'PQ400', message = pushq.kind_problem(of_kind);
  elsif filter is not null then
    found := (pushq.filtered_devices(
      q, coalesce(of_kind, 'alert'), pushq.with_audiences(pushq.parse_filter(filter), q), now(), last,
      9223372036854775807, budget, least(most, budget)::int)).ids;
  elsif of_kind is not null then
    found := array(
      select d.id
      from (select * from pushq.device d where d.queue_id = q and d.id > last order by d.id limit budget) d
      where coalesce(d.kind, 'alert') = of_kind and (d.active or with_inactive)
        and (show_devices.user_key is null or d.user_key = show_devices.user_key)
      order by d.id
      limit most);
  end if;
  if found is not null then
    -- Devices may have become inactive since they were found.
    return query
    select s.*
    from pushq.shown_devices(q) s
    where s.id = any (found) and (s.active or with_inactive and filter is null)
    order by s.id;
    return;
  end if;
  return query
  select s.*
  from pushq.shown_devices(q) s
  where s.id > last and (s.active or with_inactive)
    and (show_devices.user_key is null or s.device_user = show_devices.user_key)
  order by s.id
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
  return query select s.* from pushq.shown_devices(q) s where s.token = show_device.token;
end $$;

-- The latest reports about devices first. No more than `most` rows of each day are read, by key, however many the day
-- has. With a reason or a time, the search covers the latest 100,000 of each day.
create or replace function pushq.show_feedback(
  queue text, most bigint, of_reason int default null, since timestamptz default null, until timestamptz default null
)
returns table (device_id bigint, token bytea, user_key text, reason smallint, reported_at timestamptz,
               recorded_at timestamptz, verdict text, root_id bigint, job_id bigint, campaign_key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q      int    := (pushq.enter(queue, sends => false)).q;
  budget bigint := case when coalesce(of_reason::text, since::text, until::text) is null then most
                        else greatest(most, 100000) end;
begin
  perform pushq.check_row_limit(most);
  return query
  select f.device_id, d.token, d.user_key, f.reason, f.reported_at, f.recorded_at, f.verdict, f.root_id, f.job_id,
         (select c.key from pushq.campaign c where c.queue_id = f.queue_id and c.id = f.root_id)
  from (
    select f.*
    from (
      select to_date(substring(relname from '_([0-9]{8})$'), 'YYYYMMDD') as day
      from pg_inherits
      join pg_class c on c.oid = inhrelid
      where inhparent = 'pushq.feedback'::regclass) k
    cross join lateral (
      select * from pushq.feedback f where f.day = k.day and f.queue_id = q order by f.id desc limit budget) f
    -- A report lies in the day on which it was recorded, in UTC, or in a later one if it was undone.
    where k.day >= coalesce((since at time zone 'UTC')::date, k.day)
      and (of_reason is null or f.reason = of_reason)
      and (since is null or f.recorded_at >= since) and (until is null or f.recorded_at <= until)
    order by f.id desc
    limit most) f
  left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
  order by f.id desc;
end $$;
