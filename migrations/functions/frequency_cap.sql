-- Frequency caps: at most so many pushes to a device in a period. docs/frequency-caps.md explains them.
--
-- Before a worker sends, it takes a place for each recipient (`pushq.hold_to_caps`). When the job ends or is given
-- back, it gives up the places of those that got nothing (`pushq.note_capped`). Nothing has to be
-- written when a push has arrived: a place counts for good once its job is gone, and while the job is there, nobody
-- knows yet. So a crash at any moment loses no place, and none stays that nothing came of.

-- A cap as an operator reads it, and as `pushq-admin queue set --frequency-cap` takes its first part.
create or replace function pushq.cap_in_words(c pushq.frequency_cap) returns text
language sql stable as $$
  select concat_ws(
    ', ',
    format('%s per %s', c.pushes, case
      when c.period is null then 'calendar day'
      else (
        select format('%s %s%s', u.number, u.name, case when u.number > 1 then 's' end)
        from (
          select (extract(epoch from c.period) / s.seconds)::int as number, s.name
          from (values ('day', 86400), ('hour', 3600), ('minute', 60), ('second', 1)) s(name, seconds)
          where extract(epoch from c.period) % s.seconds = 0
          order by s.seconds desc
          limit 1) u) end),
    case when c.includes_urgent then 'urgent ones, too' end,
    c.time_zone)
$$;

-- For how long a push can matter. A worker sends for ten seconds after it took it up, and a rolling period is kept to
-- from the last of them. A calendar day can have begun two days ago elsewhere, and devices travel.
create or replace function pushq.cap_window(period interval) returns interval
language sql stable parallel safe as $$
  select coalesce(period + interval '10 seconds', interval '2 days')
$$;

-- When the last place but so many was taken: of `n` 1 the last one, null if there are fewer. Places that lie ahead,
-- from before the database's clock was corrected, do not count: they would hold pushes back until that time has come.
create or replace function pushq.last_place(sent_at timestamptz[], n int) returns timestamptz
language sql stable as $$
  select case when $1[cardinality($1)] > now() + interval '1 minute' then pushq.last_place_by_now($1, $2)
              else $1[cardinality($1) - $2 + 1] end
$$;

-- The same, where some lie ahead. The one above is asked for each push, and so has no query in it.
create or replace function pushq.last_place_by_now(sent_at timestamptz[], n int) returns timestamptz
language sql stable as $$
  select p.at from unnest($1) p(at) where p.at <= now() + interval '1 minute' order by p.at desc offset $2 - 1 limit 1
$$;

-- The cap of a queue, in words, if it holds for a campaign of this push type, and how many of its audience it would
-- hold back now: active devices that have had as many pushes as it allows, or have them on their way. The audience is
-- as for `pushq.count_zones`, without the devices of the zones `without`, '' for those that have none, and those that
-- are in the holdout of `shares`; null without one.
create or replace function pushq.count_capped(
  q int, push_type text, urgent boolean, tree jsonb, tokens bytea[], without text[], shares jsonb, out cap text,
  out devices bigint
)
language plpgsql stable set enable_nestloop = off set jit = off as $$
declare
  c         pushq.frequency_cap;
  literals  text[] := '{}';
  condition text   := 'true';
  ids       bigint[];                                     -- where there is a holdout: the devices, with those in it
begin
  select x.* into c from pushq.frequency_cap x where x.queue_id = q;
  if c.queue_id is null or push_type <> 'alert' or urgent and not c.includes_urgent then
    return;
  end if;
  cap := pushq.cap_in_words(c);
  if tree is not null then
    select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(tree, now(), literals) s;
  elsif tokens is not null then
    condition := 'd.token in (select unnest($3))';
  end if;
  -- The day of each zone is computed once.
  execute format(
    $sql$
    with day as materialized (
      select z.time_zone, pushq.day_began(now(), pushq.known_zone(z.time_zone, $6)) as began_at
      from (
        select distinct p.time_zone from pushq.profile p where p.queue_id = $2 and p.time_zone is not null
        union
        select $6) z
      where $5 is null)
    select %s
    from pushq.recent_push r
    join pushq.device d on d.queue_id = $2 and d.id = r.device_id
    left join pushq.profile p on p.queue_id = $2 and p.device_id = r.device_id
    left join day y on y.time_zone = coalesce(p.time_zone, $6)
    where r.queue_id = $2 and d.active and coalesce(d.kind, 'alert') = 'alert' and %s
      and coalesce(p.time_zone, '') <> all ($7)
      and $4 <= (
        select count(*)
        from unnest(r.sent_at) s(at)
        where s.at >= coalesce(y.began_at, now() - pushq.cap_window($5)) and s.at <= now() + interval '1 minute')
    $sql$,
    case when shares is null then 'count(*), null::bigint[]' else 'null::bigint, array_agg(d.id)' end, condition)
  into devices, ids
  using literals, q, tokens, c.pushes, c.period, coalesce(pushq.known_zone(c.time_zone), 'UTC'), without;
  if shares is not null then
    select count(*) into devices from pushq.shares_of(shares, ids) s where s.share > 0;
  end if;
end $$;

-- When the day began that clocks in a zone show at a time: when they first showed it.
create or replace function pushq.day_began(at timestamptz, time_zone text) returns timestamptz
language sql stable as $$
  select t.first from pushq.local_times(date_trunc('day', $1 at time zone $2), $2) t
$$;

-- Takes places for the recipients of jobs that `worker` holds. The recipients of a job are those of `device_ids` from
-- its `firsts` to its `lasts`.
--
-- Returns those that get no place: with `wait` null if as many pushes have reached the device as the cap allows, and
-- otherwise with the microseconds after which to ask again, because nobody knows yet what becomes of some of them, or
-- because another transaction keeps the places of the device locked, or because the device has become inactive since
-- the worker read its token, or was forgotten: its places may have moved to a newer one. A recipient that has a place
-- keeps it: to send to it again is a repeat. It needs a place of this day if that which it has is of a day that has
-- ended.
create or replace function pushq.hold_to_caps(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, wait bigint)
language plpgsql set lock_timeout = '250ms' set enable_seqscan = off as $$
#variable_conflict use_column
declare
  waiting bigint[];
begin
  begin
    -- Whoever has moved them has ended when it is asked which devices are inactive.
    perform from pushq.recent_push r
    where r.queue_id = any (queue_ids) and r.device_id = any (device_ids)
    order by r.queue_id, r.device_id
    for no key update;
    waiting := pushq.inactive_among(queue_ids, device_ids);
    return query
    select t.queue_id, t.job_id, t.device_id, t.wait
    from pushq.take_free_places(worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, waiting) t;
  exception when lock_not_available then
    waiting := pushq.locked_places(queue_ids, device_ids) || pushq.inactive_among(queue_ids, device_ids);
    begin
      return query
      select t.queue_id, t.job_id, t.device_id, t.wait
      from pushq.take_free_places(worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, waiting) t;
    exception when lock_not_available then
      -- A row that is being made cannot be seen. All wait, and are told apart when they come again.
      waiting := device_ids;
    end;
  end;
  return query
  select g.queue_id, g.job_id, d.id, 1000000::bigint
  from unnest(queue_ids, job_ids, firsts, lasts) g(queue_id, job_id, first, last)
  cross join lateral unnest(device_ids[g.first : g.last]) d(id)
  where d.id = any (waiting);
end $$;

-- Which of these devices have places that another transaction keeps locked. Those of the others are locked by this one.
create or replace function pushq.locked_places(queue_ids int[], device_ids bigint[]) returns bigint[]
language sql set enable_seqscan = off as $$
  with free as materialized (
    select r.device_id
    from pushq.recent_push r
    where r.queue_id = any ($1) and r.device_id = any ($2)
    for no key update skip locked)
  select coalesce(array_agg(r.device_id), '{}')
  from pushq.recent_push r
  where r.queue_id = any ($1) and r.device_id = any ($2)
    and not exists (select from free f where f.device_id = r.device_id)
$$;

-- Takes places, and passes over the devices of `except_devices`.
create or replace function pushq.take_free_places(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  except_devices bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, wait bigint)
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  this_round int := 0;
  rounds     int := 1;
  is_late    bool := false;                                -- others made rows of devices that had none
  left_over  record;
begin
  -- A device that is in several jobs is looked at as often, in their order.
  while is_late or this_round < rounds loop
    if not is_late then
      this_round := this_round + 1;
    end if;
    with held as materialized (
      select l.queue_id, l.job_id, l.root_id, c.pushes, c.period, coalesce(c.time_zone, 'UTC') as time_zone,
             g.first, g.last, g.place
      from unnest(queue_ids, job_ids, epochs, firsts, lasts) with ordinality
        as g(queue_id, job_id, epoch, first, last, place)
      join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
        and l.worker_id = worker
      join pushq.frequency_cap c on c.queue_id = l.queue_id),
    -- The zone is looked up for calendar days only: the limit keeps the condition in front of the table.
    zoned as materialized (
      select h.queue_id, h.job_id, h.root_id, h.pushes, h.period, d.id as device_id,
             coalesce(p.time_zone, h.time_zone) as time_zone, h.time_zone as default_zone,
             row_number() over (partition by h.queue_id, d.id order by h.place) as round
      from held h
      cross join lateral unnest(device_ids[h.first : h.last]) d(id)
      left join lateral (
        select p.time_zone
        from pushq.profile p
        where h.period is null and p.queue_id = h.queue_id and p.device_id = d.id
        limit 1) p on true
      where d.id <> all (except_devices)),
    -- Each zone's day is computed once.
    dated as materialized (
      select z.*,
             case when z.period is null and row_number() over zone = 1
                  then pushq.day_began(now(), coalesce(pushq.known_zone(z.time_zone, z.default_zone), 'UTC'))
             end as began_at
      from zoned z
      window zone as (partition by z.period is null, z.time_zone, z.default_zone)),
    asked as materialized (
      select z.queue_id, z.job_id, z.root_id, z.pushes, z.device_id, z.round,
             coalesce(max(z.began_at) over (partition by z.period is null, z.time_zone, z.default_zone),
                      now() - pushq.cap_window(z.period)) as since,
             now() - pushq.cap_window(z.period) as kept_since
      from dated z
      -- In the order in which all take them, so that no two wait for each other.
      order by z.queue_id, z.device_id),
    -- What another transaction has changed meanwhile is looked at again, by PostgreSQL.
    again as (
      update pushq.recent_push r
      set (root_ids, job_ids, sent_at) = (
        select array_agg(e.root order by e.at), array_agg(e.job order by e.at), array_agg(e.at order by e.at)
        from (
          select x.root, x.job, x.at
          from unnest(r.root_ids, r.job_ids, r.sent_at) x(root, job, at)
          where x.at between a.kept_since and now() + interval '1 minute' and x.root <> a.root_id
          union all
          select a.root_id, a.job_id, now()) e)
      from asked a
      where a.round = this_round and r.queue_id = a.queue_id and r.device_id = a.device_id
        -- The oldest of those that would be too many with it.
        and (coalesce(pushq.last_place(r.sent_at, a.pushes) < a.since, true)
          or exists (
            select
            from unnest(r.root_ids, r.sent_at) x(root, at)
            where x.root = a.root_id and x.at >= a.since))
      returning r.queue_id, r.device_id),
    -- Grouped and not joined: nobody knows how many rows there are, and a loop within a loop takes ten times as long.
    missing as materialized (
      select u.queue_id, u.device_id, max(u.root_id) as root_id, max(u.job_id) as job_id, max(u.pushes) as pushes,
             max(u.since) as since
      from (
        select a.queue_id, a.device_id, a.root_id, a.job_id, a.pushes, a.since, false as has_place
        from asked a
        where a.round = this_round
        union all
        select queue_id, device_id, null, null, null, null, true from again) u
      group by u.queue_id, u.device_id
      having not bool_or(u.has_place)),
    first as (
      insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
      select m.queue_id, m.device_id, array[m.root_id], array[m.job_id], array[now()]
      from missing m
      order by m.queue_id, m.device_id
      on conflict on constraint recent_push_pkey do nothing
      returning queue_id, device_id),
    late as (
      select u.queue_id, u.device_id, max(u.job_id) as job_id, max(u.pushes) as pushes, max(u.since) as since
      from (
        select m.queue_id, m.device_id, m.job_id, m.pushes, m.since, false as has_place from missing m
        union all
        select queue_id, device_id, null, null, null, true from first) u
      group by u.queue_id, u.device_id
      having not bool_or(u.has_place))
    select (select max(round) from asked) as rounds, array_agg(queue_id) as queue_ids, array_agg(job_id) as job_ids,
           array_agg(device_id) as device_ids, array_agg(pushes) as pushes, array_agg(since) as since
    into left_over
    from late;

    rounds := coalesce(left_over.rounds, 0);
    -- Their rows are there by now, and are waited for.
    is_late := not is_late and exists (
      select
      from unnest(left_over.queue_ids, left_over.device_ids, left_over.pushes, left_over.since)
        as g(queue_id, device_id, pushes, since)
      join pushq.recent_push r on r.queue_id = g.queue_id and r.device_id = g.device_id
      where coalesce(pushq.last_place(r.sent_at, g.pushes) < g.since, true));
    if is_late then
      continue;
    end if;
    return query
    select g.queue_id, g.job_id, g.device_id,
           case when c.arrived < g.pushes
                -- As long as the oldest has taken so far: a second to a minute.
                then greatest(1000000, least(60000000, extract(epoch from now() - coalesce(c.oldest, now())) * 1000000))
                       ::bigint end
    from unnest(left_over.queue_ids, left_over.job_ids, left_over.device_ids, left_over.pushes, left_over.since)
      as g(queue_id, job_id, device_id, pushes, since)
    left join pushq.recent_push r on r.queue_id = g.queue_id and r.device_id = g.device_id
    cross join lateral (
      select count(*) filter (where not e.is_open) as arrived, min(e.at) filter (where e.is_open) as oldest
      from (
        select x.at,
               exists (select from pushq.lease l where l.queue_id = g.queue_id and l.job_id = x.job)
                 or exists (select from pushq.job j where j.queue_id = g.queue_id and j.id = x.job) as is_open
        from unnest(r.job_ids, r.sent_at) x(job, at)
        where x.at between g.since and now() + interval '1 minute') e) c;
  end loop;
end $$;

-- What has become of places under frequency caps: those of recipients that got nothing are given up, and those of
-- recipients that got it are marked as final. The recipients of a job are those of `device_ids` from its `firsts` to
-- its `lasts`. Fenced by the lease, of which the row is only read: a worker does this right before it ends the job or
-- gives it back. If that fails, the next holder takes places anew.
--
-- Places that another transaction keeps locked stay as they are, so that the device gets one push less in this period
-- perhaps: a worker that waited for them would renew no lease meanwhile, and other tenants' pushes would be sent twice.
create or replace function pushq.note_capped(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  arrived boolean[]
) returns void
language plpgsql set lock_timeout = '250ms' as $$
begin
  perform pushq.note_free_capped(worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, arrived, '{}');
exception when lock_not_available then
  perform pushq.note_free_capped(
    worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, arrived,
    pushq.locked_places(queue_ids, pushq.with_newer_tokens(queue_ids, device_ids)));
end $$;

-- Notes as above, and passes over the devices of `except_devices`. In the order of devices, in which places are taken,
-- too.
create or replace function pushq.note_free_capped(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  arrived boolean[], except_devices bigint[]
) returns void
language sql set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
  with given as materialized (
    -- A row for each device: an update changes it once, however many jobs there are that have something to say.
    select l.queue_id, p.device_id, array_agg(l.root_id) as root_ids,
           coalesce(array_agg(l.root_id) filter (where d.arrived), '{}') as arrived
    from unnest($2, $3, $4, $5, $6) as g(queue_id, job_id, epoch, first, last)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $1
    cross join lateral unnest($7[g.first : g.last], $8[g.first : g.last]) as d(device_id, arrived)
    -- A place moves to the newer token of a device, also while the push is on its way (pushq.move_recent_pushes).
    cross join lateral (
      select case
        when exists (
          select
          from pushq.recent_push h
          where h.queue_id = l.queue_id and h.device_id = d.device_id and h.root_ids @> array[l.root_id])
          then d.device_id
        else coalesce(
          (select v.replaced_by from pushq.device v where v.queue_id = l.queue_id and v.id = d.device_id),
          d.device_id) end as device_id) p
    where p.device_id <> all ($9)
    group by l.queue_id, p.device_id
    order by l.queue_id, p.device_id)
  update pushq.recent_push r
  set (root_ids, job_ids, sent_at) = (
    select coalesce(array_agg(e.root order by e.at), '{}'),
           coalesce(array_agg(case when e.root = any (g.arrived) then 0 else e.job end order by e.at), '{}'),
           coalesce(array_agg(e.at order by e.at), '{}')
    from unnest(r.root_ids, r.job_ids, r.sent_at) e(root, job, at)
    where e.root <> all (g.root_ids) or e.root = any (g.arrived))
  from given g
  where r.queue_id = g.queue_id and r.device_id = g.device_id and r.root_ids && g.root_ids
$$;

-- Deletes what no cap asks for any more, of `step` rows behind a key. Returns the key of the last of them; null when
-- there was none.
create or replace function pushq.forget_recent_pushes(step int, inout after_queue int, inout after_device bigint)
language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  with page as materialized (
    select r.queue_id, r.device_id, now() - pushq.cap_window(c.period) as kept_since, c.queue_id is null as is_lifted
    from (
      select queue_id, device_id
      from pushq.recent_push
      where (queue_id, device_id) > (after_queue, after_device) and queue_id <> all (pushq.queues_under_way())
      order by queue_id, device_id
      limit step) r
    left join pushq.frequency_cap c on c.queue_id = r.queue_id),
  -- A row that a producer has locked is left to the next round.
  old as materialized (
    select r.queue_id, r.device_id
    from page p
    join pushq.recent_push r on r.queue_id = p.queue_id and r.device_id = p.device_id
    where p.is_lifted or coalesce(pushq.last_place(r.sent_at, 1) < p.kept_since, true)
    for update of r skip locked),
  gone as (
    delete from pushq.recent_push r
    using old o
    where r.queue_id = o.queue_id and r.device_id = o.device_id)
  select queue_id, device_id into after_queue, after_device from page order by queue_id desc, device_id desc limit 1;
end $$;
