-- Campaigns at a local time: each device gets the push when the clocks of its own zone show that time.
-- docs/schedules.md explains them.
--
-- The settings of such a campaign are its *clock*:
--   {"time": "09:00", "day": "2026-12-24", "if_passed": "never", "catch_up": "01:00:00", "zone": "Europe/Vienna",
--    "start": "2026-11-23T10:00:00Z", "within": "24:00:00"}
-- `day` and `zone` may be missing. `within` is how long after its time a wave is sent; if it is missing, until the
-- campaign's explicit `send_by`. The clock of a campaign that a schedule started also has its `run` (`pushq.run_wave`).
--
-- The devices that are due at the same instant are a wave. Fan-out first sorts all devices into waves
-- (`pushq.sort_into_waves`), and creates the jobs of a wave when it is due (`pushq.deal_wave`).

-- Reads the arguments of a campaign; null for one without a local time.
create or replace function pushq.read_clock(
  local_time text, if_passed text default null, catch_up interval default null, default_zone text default null
) returns jsonb
language plpgsql stable as $$
declare
  parts   text[] := regexp_match(local_time, E'^(?:(\\d{4}-\\d\\d-\\d\\d)[T ])?([01]?\\d|2[0-3]):([0-5]\\d)$');
  problem text   := pushq.time_zone_problem(default_zone);
begin
  if local_time is null then
    if if_passed is not null or catch_up is not null or default_zone is not null then
      raise exception using errcode = 'PQ400',
        message = 'if_passed, catch_up and default_zone are for campaigns with a local_time';
    end if;
    return null;
  elsif parts is null then
    raise exception using errcode = 'PQ400', message = format('“%s” is not a local time', pushq.shown(local_time, 40)),
      hint = 'use one such as 09:00, or 2026-12-24T18:00';
  elsif not coalesce(if_passed in ('now', 'never', 'next-day'), true) then
    raise exception using errcode = 'PQ400',
      message = format('if_passed cannot be “%s”%s', pushq.shown(if_passed, 40),
                       pushq.suggestion(if_passed, array['now', 'never', 'next-day'])),
      hint = 'use now, never or next-day';
  elsif not coalesce(catch_up between interval '0' and interval '24 hours', true) then
    raise exception using errcode = 'PQ400', message = format('catch_up %s is not between 0 and 24 hours', catch_up);
  elsif problem is not null or default_zone = '' then
    raise exception using errcode = 'PQ400', message = coalesce(problem, 'the time zone is empty');
  end if;
  return jsonb_strip_nulls(jsonb_build_object(
    'day', parts[1]::date, 'time', format('%s:%s', lpad(parts[2], 2, '0'), parts[3]),
    'if_passed', coalesce(if_passed, case when parts[1] is null then 'next-day' else 'never' end),
    -- This is in the campaign's digest, so it is the same for a day and for 24 hours, whatever the session's
    -- IntervalStyle is.
    'catch_up', to_char(make_interval(secs => extract(epoch from coalesce(catch_up, interval '1 hour'))::float8),
                        'HH24:MI:SS'),
    'zone', default_zone));
exception when datetime_field_overflow or invalid_datetime_format then
  raise exception using errcode = 'PQ400', message = format('there is no day %s', parts[1]);
end $$;

-- When fan-out begins: at `start_at`, or at once if that has passed, as for any campaign. For a campaign on a day, not
-- before the local time in the first zone, which is 14 hours ahead of UTC. It refuses a start that no wave can be
-- computed for.
create or replace function pushq.clock_start(clock jsonb, start_at timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  begins pg_catalog.timestamptz := greatest(
    start_at, now(),
    ((clock ->> 'day')::date + (clock ->> 'time')::time - interval '14 hours') at time zone 'UTC');
begin
  perform pushq.check_times(start_at, 'start_at', null, null);
  -- The last wave comes within 53 hours, and ends a day later.
  if begins >= '9999-12-28 00:00:00+00' then
    raise exception using errcode = 'PQ400', message = 'the local time comes after the year 9999 in some time zones',
      hint = 'give a day before 9999-12-28';
  end if;
  return begins;
end $$;

-- Refuses a day and time that have passed in all zones when the campaign starts, if no device would get it then. The
-- last zone is 12 hours behind UTC.
create or replace function pushq.check_clock(clock jsonb, start_at timestamptz) returns void
language plpgsql stable as $$
begin
  if clock ->> 'if_passed' = 'never'
    and ((clock ->> 'day')::date + (clock ->> 'time')::time + interval '12 hours') at time zone 'UTC'
          + (clock ->> 'catch_up')::interval < start_at then
    raise exception using errcode = 'PQ400',
      message = format('the local time %sT%s has passed in every time zone', clock ->> 'day', clock ->> 'time'),
      hint = 'use a later one, or send it at once all the same (if_passed => ''now'', --if-passed now)';
  end if;
end $$;

-- The end of the whole campaign, as the arguments of its start give it; null if each wave has its own end (`within`).
create or replace function pushq.given_end(send_by timestamptz, expiration bigint) returns timestamptz
language sql stable as $$
  -- Other expirations mean no end, or are refused.
  select least(send_by, case when expiration between 1 and 99999999999 then to_timestamp(expiration) end)
$$;

-- Refuses a campaign that ends, at `ends`, before its local time has come for more than one in a hundred devices of its
-- audience: they would get nothing, and only the outcomes would show it. For fewer devices, such as those of a few
-- travellers, it warns. Devices that the local time leaves out do not count. The audience is as for
-- `pushq.count_zones`.
create or replace function pushq.check_waves(
  q int, clock jsonb, ends timestamptz, aim text, tree jsonb, tokens bytea[] default null, list bigint default null
) returns void
language plpgsql as $$
declare
  late    record;
  problem text;
  advice  text;
begin
  -- Most campaigns end after the last possible wave, so their devices need not be counted. A local time that has passed
  -- comes again within 25 hours if clocks are put back, and within 27 hours for a run of a schedule.
  if ends is null or ends > greatest(
    (clock ->> 'start')::timestamptz,
    ((clock ->> 'day')::date + (clock ->> 'time')::time + interval '12 hours') at time zone 'UTC'
  ) + interval '27 hours' then
    return;
  end if;
  select sum(z.recipients) filter (where w.due is not null) as devices,
         sum(z.recipients) filter (where w.due >= ends) as late,
         max(w.due) filter (where w.due >= ends) as last,
         array_agg(coalesce(z.time_zone, clock ->> 'zone') order by z.recipients desc, z.time_zone)
           filter (where w.due >= ends) as zones
  into late
  from pushq.count_zones(q, aim, tree, pushq.active_tokens(q, tokens), list) z
  cross join lateral pushq.wave_of(clock, z.time_zone) w(due);
  if late.late > 0 then
    problem := format(
      'it ends at %s, before the local time comes for %s of its devices (%s%s): they would get nothing',
      pushq.shown_time(ends), late.late, array_to_string(late.zones[:3], ', '),
      case when cardinality(late.zones) > 3 then format(' and %s more zones', cardinality(late.zones) - 3)
           else '' end);
    advice := format(
      'send_by and expiration are the same instant everywhere: give one after the last wave at %s, or leave %s',
      pushq.shown_time(late.last),
      case when tokens is null and list is null then 'these zones out with a filter on time_zone'
           else 'their devices off the list' end);
    if late.late * 100 > late.devices then
      raise exception using errcode = 'PQ400', message = problem, hint = advice;
    end if;
    raise warning using message = problem, hint = advice;
  end if;
end $$;

-- When a campaign is due in a zone; null for never. A device whose zone is missing, or unknown to this server, is due
-- in the clock's own zone, or never if that is missing. For a run of a schedule see `pushq.run_wave`; if this server
-- does not know the schedule's zone, the time counts from the start, as in other campaigns.
--
-- Without a day, the campaign takes the zone's local day at the start. If the time has passed there by then, the
-- campaign is due at once during `catch_up`, and after that as `if_passed` says.
create or replace function pushq.wave_of(clock jsonb, time_zone text) returns timestamptz
language plpgsql stable as $$
declare
  start pg_catalog.timestamptz := clock ->> 'start';
  zone  pg_catalog.text        := pushq.known_zone(time_zone, clock ->> 'zone');
  today pg_catalog.date        := (start at time zone zone)::date;
  due   pg_catalog.timestamptz;
begin
  if zone is null then
    return null;
  elsif clock ? 'run' and pushq.known_zone(clock ->> 'run_zone') is not null then
    return pushq.run_wave(clock, zone);
  end if;
  select t.first into due
  from pushq.local_times(coalesce((clock ->> 'day')::date, today) + (clock ->> 'time')::time, zone) t;
  if due >= start then
    return due;
  elsif due >= start - (clock ->> 'catch_up')::interval or clock ->> 'if_passed' = 'now' then
    return start;
  elsif clock ->> 'if_passed' = 'next-day' then
    return (
      select min(t.first)
      from generate_series(0, 1) n
      cross join lateral pushq.local_times(today + n + (clock ->> 'time')::time, zone) t
      where t.first >= start);
  end if;
  return null;
end $$;

-- When a campaign that a schedule started is due in a zone: at the first such local time after its run. `run` is the
-- run's time by the clocks of `run_zone`, however late the campaign was started.
--
-- The runs of a daily schedule cover each local day once, because the day on which a campaign is due is always the same
-- number of days after its run. The clocks of the two zones may change on different days, or only in one zone, so a
-- time just after the run on most days may be just before it on others. If each day were taken by itself, one local day
-- would have two runs and another none. So what counts is the difference between the zones when the zone's clocks are
-- furthest ahead of the schedule's, in years that do not depend on the run. Twelve years have every date on each day of
-- the week, and every fifth day of them finds the largest difference that any two zones have until 2087, even if it
-- lasts two days. If a zone moves across the date line, its day changes, but not its time.
create or replace function pushq.run_wave(clock jsonb, time_zone text) returns timestamptz
language plpgsql stable as $$
declare
  run    pg_catalog.timestamp := clock ->> 'run';
  zone   pg_catalog.text      := clock ->> 'run_zone';
  today  interval             := (run at time zone zone) at time zone time_zone - run;
  due    pg_catalog.timestamp := run::date + (clock ->> 'time')::time;
  passed pg_catalog.float8    := extract(epoch from run + today - due);
  more   pg_catalog.float8;
begin
  -- The difference between two zones never varies by more than three hours. The sample takes a millisecond, so it is
  -- taken only for zones where the time is that close to the run.
  if ceil((passed - 3 * 3600) / 86400) <> ceil((passed + 3 * 3600) / 86400) then
    select extract(epoch from max(w at time zone time_zone - w at time zone zone) - today) into more
    from generate_series(timestamptz '2026-01-01 12:00Z', timestamptz '2037-12-31 12:00Z', interval '120 hours') w;
    passed := passed + more - 86400 * round(more / 86400);
  end if;
  return (select t.first from pushq.local_times(due + interval '1 day' * ceil(passed / 86400), time_zone) t);
end $$;

-- When a campaign is due for devices of a wave that was due at `dealt` and that are in this zone now.
--
-- If the time is still to come there, it is that time. If it has passed, the devices have moved, and it may be the
-- middle of the night: with `next-day` they wait for the next such time there, if that is before `send_by`. This does
-- not apply to a run of a schedule, because the next run is due then.
create or replace function pushq.wave_after(f pushq.fan_out, dealt timestamptz, time_zone text) returns timestamptz
language plpgsql stable as $$
declare
  zone  pg_catalog.text        := pushq.known_zone(time_zone, f.clock ->> 'zone');
  today pg_catalog.date        := (now() at time zone zone)::date;
  due   pg_catalog.timestamptz := pushq.wave_of(f.clock, zone);
  later pg_catalog.timestamptz;
begin
  if due > now() or due = dealt or f.clock ? 'run' or f.clock ->> 'if_passed' <> 'next-day' then
    return due;
  end if;
  -- For devices that have waited for this time, it is `dealt`.
  select min(t.first) filter (where t.first > now() or t.first = dealt) into later
  from unnest(array[(dealt at time zone zone)::date, today, today + 1]) day
  cross join lateral pushq.local_times(day + (f.clock ->> 'time')::time, zone) t;
  return case when later < f.send_by then later else due end;
end $$;

-- When the campaign is due for each of some devices, in their present zones, in ascending order of devices. A device
-- without a known zone has the clock's zone, if there is one. `dealt`: the devices are of the wave that was due then
-- (`pushq.wave_after`).
create or replace function pushq.waves_of(f pushq.fan_out, ids bigint[], dealt timestamptz default null)
returns table (device_id bigint, due_at timestamptz)
language plpgsql stable set enable_nestloop = off set jit = off as $$
#variable_conflict use_column
begin
  -- Each zone is computed once, not for each device.
  return query
  with zoned as materialized (
    select i.id,
           coalesce(
             p.time_zone,
             -- For a device that a newer token has replaced, the newer one's zone.
             (select n.time_zone
              from pushq.profile n
              where n.queue_id = f.queue_id
                and n.device_id = (
                  select d.replaced_by from pushq.device d where d.queue_id = f.queue_id and d.id = i.id)),
             f.clock ->> 'zone') as time_zone
    from unnest(ids) i(id)
    left join (
      select device_id, time_zone
      from pushq.profile
      where queue_id = f.queue_id and device_id between ids[1] and ids[cardinality(ids)]) p on p.device_id = i.id),
  due as materialized (
    select z.time_zone, case when dealt is null then pushq.wave_of(f.clock, z.time_zone)
                             else pushq.wave_after(f, dealt, z.time_zone) end as due_at
    from (select distinct time_zone from zoned where time_zone is not null) z)
  select z.id, d.due_at
  from zoned z
  left join due d on d.time_zone = z.time_zone
  order by z.id;
end $$;

-- Puts devices, ascending, into their waves. Returns the number of devices in no wave, because their zone is not known
-- or the time has passed there. `dealt`: the devices are of the wave that was due then.
create or replace function pushq.sort_into_waves(
  f pushq.fan_out, ids bigint[], dealt timestamptz default null
) returns int
language plpgsql as $$
declare
  sorted int;
begin
  -- Waves are stored in parts, so that a step that takes some devices of a wave does not rewrite the rest.
  with placed as materialized (
    select w.device_id, w.due_at, (row_number() over (partition by w.due_at order by w.device_id) - 1) / 5000 as part
    from pushq.waves_of(f, ids, dealt) w
    where w.due_at is not null),
  parts as (
    insert into pushq.wave (queue_id, campaign_id, due_at, device_ids)
    select f.queue_id, f.campaign_id, p.due_at, array_agg(p.device_id order by p.device_id)
    from placed p
    group by p.due_at, p.part)
  select count(*) into sorted from placed;
  return cardinality(ids) - sorted;
end $$;

-- The time until which a wave is sent.
create or replace function pushq.wave_end(f pushq.fan_out, due_at timestamptz) returns timestamptz
language sql stable as $$
  -- `least` ignores nulls: if one of the times is missing, it returns the other.
  select least(f.send_by, due_at + (f.clock ->> 'within')::interval)
$$;

-- Creates up to `job_limit` jobs of a campaign's first wave, if it is due. Returns their number. Waves that would be
-- due after the campaign's end are due at its end: their devices expire then, and the campaign waits no longer.
--
-- Devices that have moved since they were sorted to a zone where the campaign is due later (`pushq.wave_after`) go into
-- that wave. A device is in one wave at any time, so it gets the campaign once.
create or replace function pushq.deal_wave(f pushq.fan_out, per_job int, job_limit int) returns int
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  w     pushq.wave;
  ids   bigint[];                                         -- the devices of the wave for this step
  moved bigint[];
  jobs  int := 0;
  due   timestamptz;
begin
  select x.* into w
  from pushq.wave x
  where x.queue_id = f.queue_id and x.campaign_id = f.campaign_id and least(x.due_at, f.send_by) <= now()
  order by x.due_at, x.part
  limit 1;
  if found then
    if pushq.wave_end(f, w.due_at) <= now() then
      -- As in `pushq.fan_out_step`.
      per_job := 500;
      job_limit := greatest(job_limit, 40);
    end if;
    ids := w.device_ids[1 : job_limit * per_job];
    if cardinality(w.device_ids) > cardinality(ids) then
      update pushq.wave x set device_ids = w.device_ids[cardinality(ids) + 1 :]
      where x.queue_id = f.queue_id and x.campaign_id = f.campaign_id and x.due_at = w.due_at and x.part = w.part;
    else
      delete from pushq.wave x
      where x.queue_id = f.queue_id and x.campaign_id = f.campaign_id and x.due_at = w.due_at and x.part = w.part;
    end if;
    select coalesce(array_agg(m.device_id order by m.device_id) filter (where m.is_later), '{}'),
           coalesce(array_agg(m.device_id order by m.device_id) filter (where not m.is_later), '{}')
    into moved, ids
    from (
      -- A device that is due at no time where it is now gets the campaign with this wave.
      select v.device_id, v.due_at is not null and least(v.due_at, f.send_by) > now() as is_later
      from pushq.waves_of(f, ids, w.due_at) v) m;
    if moved <> '{}' then
      perform pushq.sort_into_waves(f, moved, w.due_at);
    end if;
    if ids <> '{}' and f.shares is not null then
      jobs := (pushq.make_share_jobs(
        f, ids, pushq.wave_end(f, w.due_at), per_job, true, coalesce(w.due_at <= f.uncertain_to, false))).jobs;
    elsif ids <> '{}' then
      jobs := ceil(cardinality(ids)::numeric / per_job);
      perform pushq.make_jobs(
        f.queue_id, f.campaign_id, f.message_id, ids, f.lane, now(), pushq.wave_end(f, w.due_at), f.at_most_once,
        per_job, f.campaign_id, uncertain => coalesce(w.due_at <= f.uncertain_to, false));
    end if;
  end if;
  -- The campaign is due again when its next wave is due.
  select min(x.due_at) into due from pushq.wave x where x.queue_id = f.queue_id and x.campaign_id = f.campaign_id;
  update pushq.fan_out o
  set made = o.made + coalesce(cardinality(ids), 0),
      message_day = pushq.today(),
      start_at = case when due is null then o.start_at else least(due, f.send_by) end,
      -- The first wave's time is that at which the campaign began.
      clock = case when o.made = 0 and ids <> '{}' then o.clock || jsonb_build_object('began', w.due_at)
                   else o.clock end,
      done = due is null,
      done_at = case when due is null then clock_timestamp() end
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id;
  return jobs;
end $$;

-- The tokens of a list without those of inactive devices, which get nothing in any case; null for null.
create or replace function pushq.active_tokens(q int, tokens bytea[]) returns bytea[]
language plpgsql stable as $$
begin
  if tokens is null then
    return null;
  end if;
  return array(
    select t
    from unnest(tokens) t
    where not exists (select from pushq.device d where d.queue_id = q and d.token = t and not d.active));
end $$;

-- How many recipients a campaign would have in each time zone now; null is for recipients without a zone. `tokens` are
-- those of a list, `tree` is that of a filter; `list` is a stored list, whose inactive devices do not count.
create or replace function pushq.count_zones(
  q int, aim text, tree jsonb, tokens bytea[], list bigint default null)
returns table (time_zone text, recipients bigint)
language plpgsql stable set enable_nestloop = off set jit = off as $$
#variable_conflict use_column
declare
  literals  text[] := '{}';
  condition text   := 'true';
begin
  if tokens is not null then
    return query
    select p.time_zone, count(*)
    from (select distinct t as token from unnest(tokens) t) t
    left join pushq.device d on d.queue_id = q and d.token = t.token
    left join pushq.profile p on p.queue_id = q and p.device_id = d.id
    group by p.time_zone;
    return;
  elsif list is not null then
    return query
    select p.time_zone, count(*)
    from pushq.list_member m
    join pushq.device d on d.queue_id = q and d.id = m.device_id and d.active and coalesce(d.kind, 'alert') = aim
    left join pushq.profile p on p.queue_id = q and p.device_id = m.device_id
    where m.queue_id = q and m.list_id = list
    group by p.time_zone;
    return;
  elsif tree is not null then
    select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(tree, now(), literals) s;
  end if;
  return query execute format(
    $sql$
    select p.time_zone, count(*)
    from pushq.device d
    left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
    where d.queue_id = $2 and d.active and coalesce(d.kind, 'alert') = $3 and %s
    group by p.time_zone
    $sql$, condition)
  using literals, q, aim;
end $$;

-- The waves of a campaign at a local time, if it were started now, with the number of recipients and the zones of each.
-- Recipients that the campaign would leave out are in a row without a time. `is_late`: the campaign would end before
-- the wave is due. It writes nothing. `tokens`, `filter` and `activity_type` are as for `pushq.preview_campaign`.
create or replace function pushq.preview_waves(
  queue text, local_time text, push_type text default 'alert', if_passed text default null,
  catch_up interval default null, default_zone text default null, start_at timestamptz default now(),
  tokens text[] default null, filter text default null, activity_type text default null,
  send_by timestamptz default null, expiration bigint default null
) returns table (due_at timestamptz, recipients bigint, time_zones text[], is_late boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     int   := (pushq.enter(queue, sends => false)).q;
  clock jsonb := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  aim   text  := pushq.audience_kind(push_type);
  tree  jsonb := pushq.tree_of_starts(filter, activity_type);
begin
  if clock is null then
    raise exception using errcode = 'PQ400', message = 'the local time is missing';
  end if;
  clock := clock || jsonb_build_object('start', pushq.clock_start(clock, start_at));
  return query
  select w.due, sum(z.recipients)::bigint,
         array_agg(coalesce(z.time_zone, 'unknown') order by z.recipients desc, z.time_zone),
         coalesce(w.due >= pushq.given_end(send_by, expiration), false)
  from (
    -- Recipients without a known zone count in the default zone, together with those that are in it.
    select pushq.known_zone(c.time_zone, clock ->> 'zone') as time_zone, sum(c.recipients) as recipients
    from pushq.count_zones(q, aim, pushq.with_audiences(tree, q), pushq.tokens(tokens)) c
    group by 1) z
  cross join lateral (
    select pushq.wave_of(clock, z.time_zone) as due) w
  group by w.due
  order by w.due;
end $$;
