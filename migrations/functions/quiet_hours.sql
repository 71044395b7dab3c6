-- Quiet hours: while clocks in a device's zone show these times, the device gets no alert. docs/quiet-hours.md explains
-- them.
--
-- Before a worker sends, it asks which recipients have quiet hours (`pushq.hold_to_quiet_hours`). These recipients
-- continue in jobs of their own, which are due when the quiet hours have ended. So no timer and no duty releases them,
-- and each recipient is checked again when its job is claimed.

-- Reads quiet hours such as 22:00-08:00, and writes them in one form; 'none' for none, null for null. They must leave
-- four hours a day, so that a release of up to two hours fits, even on a day on which clocks are put forward.
create or replace function pushq.read_quiet_hours(hours text) returns text
language plpgsql immutable parallel safe as $$
declare
  parts text[] := regexp_match(hours, E'^([01]?\\d|2[0-3]):([0-5]\\d)-([01]?\\d|2[0-3]):([0-5]\\d)$');
  m     int;
begin
  if hours is null or hours = 'none' then
    return hours;
  elsif parts is null then
    raise exception using errcode = 'PQ400', message = format('“%s” are not quiet hours', pushq.shown(hours, 40)),
      hint = 'use two times of the day, such as 22:00-08:00, or none';
  end if;
  m := ((parts[3]::int - parts[1]::int) * 60 + parts[4]::int - parts[2]::int + 1440) % 1440;
  if m not between 1 and 1200 then
    raise exception using errcode = 'PQ400',
      message = format('quiet hours %s are not between a minute and 20 hours long', hours),
      hint = 'pause the queue to send nothing at all';
  end if;
  return format('%s:%s-%s:%s', lpad(parts[1], 2, '0'), parts[2], lpad(parts[3], 2, '0'), parts[4]);
end $$;

-- Warns if a campaign's own quiet hours apply to none of its recipients, or not to all: for urgent alerts, and for
-- devices without a time zone, the queue's settings decide.
create or replace function pushq.warn_of_quiet_hours(q int, own text, push_type text, urgent boolean) returns void
language plpgsql stable as $$
declare
  h pushq.quiet_hours;
begin
  if coalesce(own, 'none') = 'none' then
    return;
  end if;
  select x.* into h from pushq.quiet_hours x where x.queue_id = q;
  if push_type <> 'alert' then
    raise warning 'the quiet hours have no effect: they are for alerts only';
  elsif urgent and h.includes_urgent is not true then
    raise warning using message = 'the quiet hours have no effect: the campaign is urgent',
      hint = 'leave out urgent, or have an operator set for the queue: --quiet-urgent on';
  elsif h.time_zone is null then
    raise warning using
      message = 'the quiet hours have no effect for devices without a time zone: the queue has none for them',
      hint = 'have an operator set for the queue: --quiet-hours, with --quiet-time-zone';
  end if;
end $$;

-- The quiet hours of a campaign whose own setting is `own`, and the zone for devices without one; nulls for none. They
-- apply to alerts, and to urgent ones if the queue says so.
create or replace function pushq.quiet_hours_for(
  q int, own text, push_type text, urgent boolean, out hours text, out time_zone text
)
language plpgsql stable as $$
begin
  select nullif(coalesce(own, h.hours), 'none'), h.time_zone
  into hours, time_zone
  from (select 1) one
  left join pushq.quiet_hours h on h.queue_id = q
  where push_type = 'alert' and (urgent is not true or h.includes_urgent);
end $$;

-- Quiet hours as text for an operator.
create or replace function pushq.quiet_hours_in_words(h pushq.quiet_hours) returns text
language sql stable as $$
  select concat_ws(
    ', ', h.hours,
    case when h.release = interval '0' then 'released at once'
         when extract(epoch from h.release) % 60 = 0
           then format('released over %s min', (extract(epoch from h.release) / 60)::int)
         else format('released over %s s', extract(epoch from h.release)::int) end,
    case when h.includes_urgent then 'urgent ones, too' end, h.time_zone)
$$;

-- Whether a clock that shows `at` is within quiet hours.
create or replace function pushq.is_quiet(at time, hours text) returns boolean
language sql immutable parallel safe as $$
  select case when starts < ends then at >= starts and at < ends else at >= starts or at < ends end
  from (select split_part(hours, '-', 1)::time as starts, split_part(hours, '-', 2)::time as ends) h
$$;

-- When clocks in a zone next show a time outside quiet hours; null if they do so at `at`, or if that is infinite.
create or replace function pushq.quiet_until(at timestamptz, hours text, time_zone text) returns timestamptz
language plpgsql stable as $$
declare
  wall  pg_catalog.timestamp := $1 at time zone time_zone;
  until pg_catalog.timestamptz;
begin
  -- From an infinite time, the series of minutes below would never end.
  if not isfinite(at) or not pushq.is_quiet(wall::time, hours) then
    return null;
  end if;
  until := at + mod((extract(epoch from split_part(hours, '-', 2)::time - wall::time) + 86400)::numeric, 86400)
                  * interval '1 second';
  if until at time zone time_zone = wall + (until - at) then
    return until;
  end if;
  -- Clocks are put forward or back before that. On such a day each minute is checked, because clocks may skip the end
  -- of the quiet hours, or show it twice.
  return (
    select m
    from generate_series(
      date_trunc('minute', at) + interval '1 minute', at + interval '27 hours', interval '1 minute') m
    where not pushq.is_quiet((m at time zone time_zone)::time, hours)
    order by m
    limit 1);
end $$;

-- When the quiet hours end for a recipient that would be sent to at `at`; null if it may be sent to then. A worker
-- sends up to ten seconds after it took a push, so the quiet hours begin that much earlier.
create or replace function pushq.held_until(at timestamptz, hours text, time_zone text) returns timestamptz
language sql stable as $$
  select coalesce(pushq.quiet_until($1, $2, $3), pushq.quiet_until($1 + interval '10 seconds', $2, $3))
$$;

-- The recipients of jobs that `worker` holds that have quiet hours now. The recipients of a job are the elements of
-- `device_ids` from its `firsts` to its `lasts`; `send_withins` is the remaining time of the job, in microseconds.
--
-- Returns these recipients with the time at which to send: `released_at` is null if that would be too late. It is a
-- time and not a wait, because the clock may be set until the worker writes it. They are spread evenly over the
-- release, by a hash of the device and the end, so that no device is always last. All recipients with the same time
-- can share a job: there are at most 60 of these parts, and fewer if they would be small.
--
-- The hash does not depend on the send: what waits for one device has one time. Then the order of the jobs' ids counts,
-- so the newest message comes last. A part has the time of its first device, so this holds for sends whose parts begin
-- with the same device, such as those to one token or to one user.
create or replace function pushq.hold_to_quiet_hours(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], send_withins bigint[],
  device_ids bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, released_at timestamptz)
language plpgsql stable set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  with held as materialized (
    select l.queue_id, l.job_id, l.root_id, coalesce(c.quiet_hours, h.hours) as hours, h.time_zone,
           coalesce(h.release, interval '15 minutes') as release,
           g.send_within * interval '1 microsecond' as send_within, device_ids[g.first : g.last] as ids
    from unnest(queue_ids, job_ids, epochs, firsts, lasts, send_withins)
      as g(queue_id, job_id, epoch, first, last, send_within)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
      and l.worker_id = worker
    left join pushq.quiet_hours h on h.queue_id = l.queue_id
    left join pushq.campaign c on c.queue_id = l.queue_id and c.id = l.campaign_id
    where coalesce(c.quiet_hours, h.hours) <> 'none'),
  -- If a job's devices are dense, it is one range scan, as in a claim; that also returns devices that are not the
  -- job's.
  known as materialized (
    select h.job_id, p.device_id, p.time_zone
    from (
      select *, ids[1] as first, ids[cardinality(ids)] as last,
             ids[cardinality(ids)] - ids[1] < 5 * 1024 * cardinality(ids) as is_dense
      from held) h
    cross join lateral (
      select r.device_id, r.time_zone
      from pushq.profile r
      where h.is_dense and r.queue_id = h.queue_id and r.device_id between h.first and h.last
      union all
      select r.device_id, r.time_zone
      from pushq.profile r
      where not h.is_dense and r.queue_id = h.queue_id and r.device_id = any (h.ids)) p
    where p.time_zone is not null),
  zoned as materialized (
    select h.queue_id, h.job_id, h.root_id, h.hours, h.release, h.send_within, d.id as device_id,
           coalesce(k.time_zone, h.time_zone) as time_zone, coalesce(h.time_zone, '') as default_zone
    from held h
    cross join lateral unnest(h.ids) d(id)
    left join known k on k.job_id = h.job_id and k.device_id = d.id),
  -- Each zone is computed once, not for each device.
  zone as materialized (
    select z.hours, z.time_zone, z.default_zone, pushq.held_until(now(), z.hours, k.time_zone) as until
    from (select distinct z.hours, z.time_zone, z.default_zone from zoned z where z.time_zone is not null) z
    cross join lateral pushq.known_zone(z.time_zone, nullif(z.default_zone, '')) k(time_zone)
    where k.time_zone is not null),
  quiet as materialized (
    select z.queue_id, z.job_id, z.root_id, z.device_id, x.until,
           -- The spread is at most half of the time that is left. Negative: too late.
           least(z.release, (z.send_within - (x.until - now())) / 2) as spread,
           (hashint8extended(z.device_id, extract(epoch from x.until)::bigint) & 16777215) / 16777216::float8 as place
    from zoned z
    join zone x on x.hours = z.hours and x.time_zone = z.time_zone and x.default_zone = z.default_zone
    where x.until is not null),
  parted as materialized (
    select q.*, floor(q.place * least(60, greatest(1, count(*) over part / 25)))::int as part
    from quiet q
    window part as (partition by q.queue_id, q.root_id, q.until, q.spread))
  select p.queue_id, p.job_id, p.device_id,
         case when p.spread >= interval '0' then p.until + p.spread * first_value(p.place) over part end
  from parted p
  window part as (partition by p.queue_id, p.root_id, p.until, p.spread, p.part order by p.device_id);
end $$;

-- The number of recipients of a root that wait for the end of their quiet hours, and when the first of them are
-- released. Those whose time ends before that are not among them.
create or replace function pushq.quiet_recipients(
  q int, root bigint, out recipients bigint, out released_at timestamptz
)
language plpgsql stable as $$
begin
  select coalesce(sum(j.recipient_count), 0), min(j.run_at)
  into recipients, released_at
  from pushq.job j
  where j.queue_id = q and j.root_id = root and j.is_quiet and j.run_at > now()
    and j.run_at < j.send_by;
end $$;

-- The quiet hours that a device waits for, the campaign's or the queue's, as the end of a sentence.
create or replace function pushq.trace_quiet(q int, campaign bigint, device bigint) returns text
language plpgsql stable as $$
begin
  return coalesce((
    select format(', %s in %s', x.hours, x.time_zone)
    from (
      select coalesce((select c.quiet_hours from pushq.campaign c where c.queue_id = q and c.id = campaign), h.hours)
               as hours,
             pushq.known_zone(
               (select p.time_zone from pushq.profile p where p.queue_id = q and p.device_id = device),
               h.time_zone) as time_zone
      from (select 1) one
      left join pushq.quiet_hours h on h.queue_id = q) x
    where x.hours <> 'none' and x.time_zone is not null), '');
end $$;

-- How many recipients of a campaign would wait for the end of their quiet hours, if it were started now, and in which
-- zones: a row for each end; no row if none would wait. `is_late`: the campaign has ended by then, so they would be
-- suppressed. The arguments are those of `pushq.preview_waves`; `quiet_hours` are the campaign's own. It writes
-- nothing.
create or replace function pushq.preview_quiet_hours(
  queue text, quiet_hours text default null, push_type text default 'alert', urgent boolean default false,
  local_time text default null, if_passed text default null, catch_up interval default null,
  default_zone text default null, start_at timestamptz default now(), tokens text[] default null,
  filter text default null, send_by timestamptz default null, expiration bigint default null
) returns table (until timestamptz, recipients bigint, time_zones text[], is_late boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     int   := (pushq.enter(queue, sends => false)).q;
  own   text  := pushq.read_quiet_hours(preview_quiet_hours.quiet_hours);
  clock jsonb := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  h     record := pushq.quiet_hours_for(q, own, push_type, preview_quiet_hours.urgent);
begin
  perform pushq.check_times(start_at, 'start_at', null, null), pushq.audience_kind(push_type),
          pushq.warn_of_quiet_hours(q, own, push_type, preview_quiet_hours.urgent);
  if h.hours is null then
    return;
  end if;
  if clock is not null then
    clock := clock || jsonb_build_object('start', pushq.clock_start(clock, start_at));
  end if;
  return query
  select w.until, sum(w.recipients)::bigint, array_agg(w.zone order by w.recipients desc, w.zone), w.is_late
  from (
    -- Recipients without a known zone count in the queue's zone, together with those that are in it.
    select u.until, l.is_late, k.time_zone as zone, sum(z.recipients) as recipients
    from pushq.count_zones(
      q, 'alert', pushq.with_audiences(pushq.parse_filter(filter), q), pushq.active_tokens(q, pushq.tokens(tokens))) z
    cross join lateral pushq.known_zone(z.time_zone, h.time_zone) k(time_zone)
    cross join lateral (
      select case when clock is null then greatest(coalesce(start_at, now()), now())
                  else pushq.wave_of(clock, z.time_zone) end as due) d
    cross join lateral (
      select case when k.time_zone is not null then pushq.held_until(d.due, h.hours, k.time_zone) end as until) u
    cross join lateral (
      -- Without `send_by`, the end is a day after the start or the wave.
      select u.until >= pushq.given_end(coalesce(send_by, d.due + interval '24 hours'), expiration) as is_late) l
    where u.until is not null
    group by 1, 2, 3) w
  group by w.until, w.is_late
  order by w.until, w.is_late;
end $$;
