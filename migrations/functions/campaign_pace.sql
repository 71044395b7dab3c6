-- Whether the rate of a campaign is enough for its time.
--
-- What is not sent by the end of a campaign expires. A campaign without an explicit end has a day: at 1 push a second,
-- not more than 86,400 recipients. Starting a campaign warns of this, and a preview counts the recipients that would
-- expire.

-- The lowest of the rates that apply to a campaign, in pushes a second, and whose it is: the campaign's `own`, its
-- queue's or its tenant's. Nulls if there is none.
create or replace function pushq.lowest_rate(q int, own float8, out rate float8, out whose text)
language plpgsql stable as $$
begin
  select x.rate, x.whose into rate, whose
  from (
    select own as rate, 'campaign' as whose
    union all
    select r.rate, case when r.queue_id = 0 then 'tenant' else 'queue' end
    from pushq.queue u
    join pushq.rate_limit r on r.tenant_id = u.tenant_id and r.queue_id in (0, u.id) and r.campaign_id = 0
    where u.id = q) x
  where x.rate is not null
  order by x.rate, x.whose
  limit 1;
end $$;

-- The number of recipients that would expire at a rate, and the time at which the others would have been sent to; nulls
-- without a rate. `recipients` are due at `dues`, ascending, and expire at `ends`. A campaign has one element, and a
-- campaign at a local time has one for each wave. A wave waits for the one before it.
create or replace function pushq.sent_at_rate(
  rate float8, dues timestamptz[], ends timestamptz[], recipients bigint[], out late bigint, out done_at timestamptz
)
language plpgsql stable as $$
declare
  begins pg_catalog.timestamptz;
  fit    bigint;                                          -- how many recipients of a wave are sent to in time
begin
  if rate is null then
    return;
  end if;
  late := 0;
  for n in 1 .. coalesce(cardinality(dues), 0) loop
    begins := greatest(dues[n], done_at);
    fit := least(recipients[n], floor(greatest(0, extract(epoch from ends[n] - begins)::float8 * rate)));
    late := late + recipients[n] - fit;
    if fit > 0 then
      done_at := begins + fit / rate * interval '1 second';
    end if;
  end loop;
end $$;

-- When the recipients of a campaign that starts at `start` are due, how many are due at each time, and when they
-- expire: at one time, or in the waves of a `clock`. Recipients in quiet hours are due when these end; recipients that
-- quiet hours suppress are left out, and so are those who are due too late at any rate (`pushq.check_waves`). `quiet`
-- is the result of `pushq.quiet_hours_for`. `zones` has the number of recipients in each time zone; it is needed only
-- with a clock or quiet hours.
create or replace function pushq.times_due(
  recipients bigint, start timestamptz, send_by timestamptz, expiration bigint, clock jsonb, quiet record, zones jsonb,
  out dues timestamptz[], out ends timestamptz[], out counts bigint[]
)
language plpgsql stable as $$
begin
  select array_agg(w.due order by w.due, w.ends), array_agg(w.ends order by w.due, w.ends),
         array_agg(w.recipients order by w.due, w.ends)
  into dues, ends, counts
  from (
    select coalesce(h.until, d.due) as due, e.ends, sum(z.recipients)::bigint as recipients
    from (
      select null as zone, times_due.recipients
      where clock is null and quiet.hours is null
      union all
      select x ->> 'zone', (x ->> 'recipients')::bigint
      from jsonb_array_elements(zones) x
      where clock is not null or quiet.hours is not null) z
    cross join lateral (
      select case when clock is null then greatest(start, now()) else pushq.wave_of(clock, z.zone) end as due) d
    cross join lateral (
      -- Without `send_by`, each wave ends a day after it is due (`pushq.wave_end`), and so does a campaign.
      select least(pushq.given_end(send_by, expiration),
                   case when send_by is null then d.due + interval '24 hours' end) as ends) e
    cross join lateral (
      select case when quiet.hours is not null then pushq.known_zone(z.zone, quiet.time_zone) end as time_zone) k
    cross join lateral (
      select case when k.time_zone is not null then pushq.held_until(d.due, quiet.hours, k.time_zone) end as until) h
    where coalesce(h.until, d.due) < e.ends
    group by 1, 2) w;
end $$;

-- The approximate number of recipients of a campaign, if it may be more than `enough`; otherwise null. If the size of
-- the table says that there are few devices, they are not counted. A filter is tried on some of the devices.
create or replace function pushq.recipients_beyond(
  q int, enough float8, aim text, tree jsonb default null, list bigint default null
) returns bigint
language plpgsql stable as $$
declare
  found   bigint;
  devices bigint;
  tried   record;
  seen    bigint;
begin
  if list is not null then
    select l.token_count into found from pushq.list l where l.queue_id = q and l.id = list;
    return case when found > enough then found end;
  -- A row of a device has at least 80 bytes.
  elsif pg_relation_size('pushq.device') / 80 <= enough then
    return null;
  end if;
  -- Counting stops far beyond `enough`: a higher count makes no difference.
  select count(*) into devices
  from (
    select from pushq.device d
    where d.queue_id = q and d.active and coalesce(d.kind, 'alert') = aim
    limit (2 * enough + 1000000)::bigint) d;
  if devices <= enough or tree is null then
    return case when devices > enough then devices end;
  end if;
  select f.ids, f.upto into tried
  from pushq.filtered_devices(
    q, aim, tree, now(), 0, 9223372036854775807, 100000, 100000, time_limit => interval '500 milliseconds') f;
  select count(*) into seen
  from (
    select from pushq.device d
    where d.queue_id = q and d.id <= tried.upto and d.active and coalesce(d.kind, 'alert') = aim) d;
  found := cardinality(tried.ids) * (devices::float8 / greatest(seen, 1));
  return case when found > enough then found end;
end $$;

-- Warns if some recipients of a campaign would expire because its rate, or its queue's or tenant's, is too low for its
-- time. The campaign starts nevertheless: its rate and its end can be changed. The audience is `list` or `tree`;
-- `quiet` is as for `pushq.times_due`. The estimate is computed only if there is a rate.
create or replace function pushq.warn_of_pace(
  q int, own float8, start timestamptz, send_by timestamptz, expiration bigint, aim text, quiet record,
  tree jsonb default null, list bigint default null, clock jsonb default null, holdout float8 default 0
) returns void
language plpgsql stable as $$
declare
  slowest    record                 := pushq.lowest_rate(q, own);
  given      pg_catalog.timestamptz := pushq.given_end(send_by, expiration);
  enough     float8;                                      -- this many recipients are sent to in time in any case
  recipients bigint;
  zones      jsonb;
  due        record;
  late       bigint;
  wait       interval               := interval '0';      -- how long quiet hours may delay it
  ended_by   pg_catalog.text;                             -- the option that sets its end
begin
  if slowest.rate is null then
    return;
  end if;
  start := greatest(start, now());
  if quiet.hours is not null then
    -- The length of the quiet hours, and an hour more for clocks that are put back.
    wait := interval '1 hour' + interval '1 second' * mod(
      extract(epoch from split_part(quiet.hours, '-', 2)::time - split_part(quiet.hours, '-', 1)::time) + 86400, 86400);
  end if;
  -- The last wave is due about 27 hours after the start (`pushq.check_waves`).
  enough := slowest.rate / (1 - holdout) * greatest(0, extract(epoch from least(
    given - start - interval '27 hours' * case when clock is null then 0 else 1 end - wait,
    case when send_by is null then interval '24 hours' - wait end)));
  recipients := pushq.recipients_beyond(q, enough, aim, tree, list);
  if recipients is null then
    return;
  elsif clock is not null or quiet.hours is not null then
    select jsonb_agg(jsonb_build_object('zone', z.time_zone, 'recipients', floor(z.recipients * (1 - holdout))))
    into zones
    from pushq.count_zones(q, aim, tree, null, list) z;
  end if;
  recipients := recipients * (1 - holdout);
  due := pushq.times_due(recipients, start, send_by, expiration, clock, quiet, zones);
  late := (pushq.sent_at_rate(slowest.rate, due.dues, due.ends, due.counts)).late;
  if late > 0 then
    ended_by := case when due.ends[cardinality(due.ends)] = given and given is distinct from send_by then 'expiration'
                     else 'send_by' end;
    raise warning using
      message = format(
        'about %s of %s recipients would expire: at the rate of the %s, %s/s, they are not sent to by %s',
        late, (select sum(c) from unnest(due.counts) c), slowest.whose, slowest.rate,
        pushq.shown_time(due.ends[cardinality(due.ends)])),
      hint = case slowest.whose
        when 'campaign' then format('raise max_rate, or give a later %s (--max-rate, --%s)', ended_by,
                                    replace(ended_by, '_', '-'))
        else format('give a later %s (--%s), or have an operator raise the rate: pushq-admin %s set --rate', ended_by,
                    replace(ended_by, '_', '-'), slowest.whose) end;
  end if;
end $$;
