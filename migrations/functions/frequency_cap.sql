-- Frequency caps limit the pushes to a device in a period. docs/frequency-caps.md explains them.
--
-- Before a worker sends, it takes a place for each recipient (`pushq.hold_to_caps`). When the job ends or is given
-- back, the worker gives up the places of recipients that got nothing (`pushq.note_capped`). A push that arrived needs
-- no further write: its place is final once its job is gone, and until then the push is open. So a crash at any moment
-- loses no place, and leaves no place for a push that was not sent.

-- A cap as text for an operator. Its first part is what `pushq-admin queue set --frequency-cap` accepts.
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

-- The period in which a push can count. A worker sends up to ten seconds after it took the push, and a rolling period
-- is kept from the last of these seconds. A calendar day may have begun two days ago in another time zone, and devices
-- travel.
create or replace function pushq.cap_window(period interval) returns interval
language sql stable parallel safe as $$
  select coalesce(period + interval '10 seconds', interval '2 days')
$$;

-- When the n-th place from the end was taken: the last one for `n` 1; null if there are fewer. Places in the future,
-- from before the database's clock was corrected, do not count: they would hold pushes back until that time.
create or replace function pushq.last_place(sent_at timestamptz[], n int) returns timestamptz
language sql stable as $$
  select case when $1[cardinality($1)] > now() + interval '1 minute' then pushq.last_place_by_now($1, $2)
              else $1[cardinality($1) - $2 + 1] end
$$;

-- The same if there are places in the future. The function above runs for each push, and so contains no query.
create or replace function pushq.last_place_by_now(sent_at timestamptz[], n int) returns timestamptz
language sql stable as $$
  select p.at from unnest($1) p(at) where p.at <= now() + interval '1 minute' order by p.at desc offset $2 - 1 limit 1
$$;

-- The cap of a queue, in words, if it applies to a campaign of this push type, and how many devices of the audience it
-- would hold back now: active devices with as many recent or open pushes as the cap allows. The audience is as for
-- `pushq.count_zones`, without devices in the zones `without` ('' for those without a zone), and without the holdout of
-- `shares`, if that is not null.
create or replace function pushq.count_capped(
  q int, push_type text, urgent boolean, tree jsonb, tokens bytea[], without text[], shares jsonb, out cap text,
  out devices bigint
)
language plpgsql stable set enable_nestloop = off set jit = off as $$
declare
  c         pushq.frequency_cap;
  literals  text[] := '{}';
  condition text   := 'true';
  ids       bigint[];                                     -- with a holdout: the devices, including those in it
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
  -- Computes the day of each zone only once.
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

-- When the current local day of a zone began at a time: the first instant at which its clocks showed that day.
create or replace function pushq.day_began(at timestamptz, time_zone text) returns timestamptz
language sql stable as $$
  select t.first from pushq.local_times(date_trunc('day', $1 at time zone $2), $2) t
$$;

-- Takes places for the recipients of jobs that `worker` holds. The recipients of a job are the elements of `device_ids`
-- from its `firsts` to its `lasts`.
--
-- Returns the recipients that get no place. `wait` is null if as many pushes have reached the device as the cap allows.
-- Otherwise it is the number of microseconds after which to ask again. That is so while some of the device's pushes are
-- open; if another transaction keeps the device's places locked; or if the device was deactivated or deleted after the
-- worker read its token, as its places may have moved to a newer token. A recipient that has a place keeps it, because
-- sending again is a repeat. If the place is of a day that has ended, the recipient needs a place of this day.
-- `patience` is as for `pushq.take_badges`.
create or replace function pushq.hold_to_caps(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  patience interval
) returns table (queue_id int, job_id bigint, device_id bigint, wait bigint)
language sql as $$
  select t.queue_id, t.job_id, t.device_id, case when t.is_kept then 1000000 else t.value end
  from pushq.take_rows('recent_push', $1, $2, $3, $4, null, $5, $6, $7, $8) t
$$;

-- Whether a job is held, or will be due. Nobody waits for one that is paused or set aside: what it may have sent
-- counts.
create or replace function pushq.is_unfinished(q int, job bigint) returns boolean
language sql stable as $$
  select exists (select from pushq.lease l where l.queue_id = $1 and l.job_id = $2)
    or exists (select from pushq.job j where j.queue_id = $1 and j.id = $2 and j.run_at < 'infinity')
$$;

-- Takes places, except for the devices in `except_devices`.
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
  is_late    bool := false;                                -- others inserted rows for devices that had none
  left_over  record;
begin
  -- A device in several jobs has one round for each, in their order.
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
    -- The zone is looked up for calendar days only: because of the limit, the condition is checked before the table is
    -- read.
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
    -- Computes the day of each zone only once.
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
      -- All workers take the rows in the same order, so that no two wait for each other.
      order by z.queue_id, z.device_id),
    -- PostgreSQL checks a row again if another transaction has changed it meanwhile.
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
        -- With the new place, this one would be too many if it were within the period.
        and (coalesce(pushq.last_place(r.sent_at, a.pushes) < a.since, true)
          or exists (
            select
            from unnest(r.root_ids, r.sent_at) x(root, at)
            where x.root = a.root_id and x.at >= a.since))
      returning r.queue_id, r.device_id),
    -- Grouped, not joined: the planner cannot know the number of rows, and a nested loop takes ten times as long.
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
    -- The rows that other transactions inserted exist now, so the next pass waits for their locks.
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
    -- The sends whose jobs have not said what became of a recipient. Once none of the jobs in which recipients continue
    -- is left, none will: the newer token may belong to somebody else, or the cap was lifted meanwhile.
    with undecided as materialized (
      select u.queue_id, u.root,
             exists (
               select
               from pushq.body b
               where b.queue_id = u.queue_id and b.root_id = u.root and b.slice < 0
                 and pushq.is_unfinished(b.queue_id, b.job_id)) as is_open
      from (
        select distinct g.queue_id, x.root
        from unnest(left_over.queue_ids, left_over.device_ids) as g(queue_id, device_id)
        join pushq.recent_push r on r.queue_id = g.queue_id and r.device_id = g.device_id
        cross join lateral unnest(r.root_ids, r.job_ids) x(root, job)
        where x.job = -1) u)
    select g.queue_id, g.job_id, g.device_id,
           case when c.arrived < g.pushes
                -- As long as the oldest open push has taken so far: a second to a minute.
                then greatest(1000000, least(60000000, extract(epoch from now() - coalesce(c.oldest, now())) * 1000000))
                       ::bigint end
    from unnest(left_over.queue_ids, left_over.job_ids, left_over.device_ids, left_over.pushes, left_over.since)
      as g(queue_id, job_id, device_id, pushes, since)
    left join pushq.recent_push r on r.queue_id = g.queue_id and r.device_id = g.device_id
    cross join lateral (
      select count(*) filter (where not e.is_open) as arrived, min(e.at) filter (where e.is_open) as oldest
      from (
        select x.at,
               case when x.job = -1 then exists (
                      select from undecided u where u.queue_id = g.queue_id and u.root = x.root and u.is_open)
                    -- As `pushq.is_unfinished`, which takes ten times as long: this is for each push that is held back.
                    else exists (select from pushq.lease l where l.queue_id = g.queue_id and l.job_id = x.job)
                      or exists (
                        select from pushq.job j
                        where j.queue_id = g.queue_id and j.id = x.job and j.run_at < 'infinity') end as is_open
        from unnest(r.root_ids, r.job_ids, r.sent_at) x(root, job, at)
        where x.at between g.since and now() + interval '1 minute') e) c;
  end loop;
end $$;

-- Records what became of places under frequency caps: places of recipients that got nothing are given up, and places of
-- recipients that got the push become final. Recipients that are `undecided` may have got it and continue in another
-- job: their places are open (-1) until that job takes them over, or says what became of them. The recipients of a job
-- are the elements of `device_ids` from its `firsts` to its `lasts`. The lease fences this, and its row is only read: a
-- worker calls this right before it ends the job or gives it back. If that fails, the next holder takes new places.
--
-- Places that another transaction keeps locked for more than 50 ms stay unchanged, so the device may get one push less
-- in this period. A worker that waited for them could not renew its leases meanwhile, and pushes of other tenants would
-- be sent twice.
create or replace function pushq.note_capped(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  arrived boolean[], undecided boolean[]
) returns void
language plpgsql set lock_timeout = '50ms' as $$
begin
  perform pushq.await_turns(queue_ids, firsts, lasts, device_ids);
  -- Again if places have moved at this moment, and their new row is locked.
  for try in 1..3 loop
    begin
      perform pushq.note_free_capped(
        worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, arrived, undecided,
        pushq.lock_rows('recent_push', r.queues, r.devices, clock_timestamp() + interval '50 ms'))
      from pushq.with_newer_tokens(queue_ids, firsts, lasts, device_ids) r;
      return;
    exception when lock_not_available then
      null;
    end;
  end loop;
end $$;

-- Records as above, except for the devices in `except_devices`. It goes in the order of devices, in which places are
-- taken, too.
create or replace function pushq.note_free_capped(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[],
  arrived boolean[], undecided boolean[], except_devices bigint[]
) returns void
language sql set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
  with given as materialized (
    -- One row for each device: an update changes a row only once, however many of the jobs concern it.
    select l.queue_id, p.device_id, array_agg(l.root_id) as root_ids, array_agg(l.job_id) as job_ids,
           coalesce(array_agg(l.job_id) filter (where d.arrived), '{}') as arrived,
           coalesce(array_agg(l.job_id) filter (where d.undecided), '{}') as undecided
    from unnest($2, $3, $4, $5, $6) as g(queue_id, job_id, epoch, first, last)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $1
    cross join lateral unnest($7[g.first : g.last], $8[g.first : g.last], $9[g.first : g.last])
      as d(device_id, arrived, undecided)
    -- A place moves to the newer token of a device, even while the push is being sent (pushq.move_recent_pushes).
    cross join lateral (
      select case
        when exists (
          select
          from pushq.recent_push h
          where h.queue_id = l.queue_id and h.device_id = d.device_id and h.root_ids @> array[l.root_id])
          then d.device_id
        -- If the newer token is a recipient of the same job, the place says what that one has got. As the recipient of
        -- another job, it has a place with that job's number (pushq.move_recent_pushes).
        else (
          select v.replaced_by
          from pushq.device v
          where v.queue_id = l.queue_id and v.id = d.device_id
            and (d.arrived or d.undecided
              or not exists (
                select
                from pushq.body b
                where b.day = l.body_day and b.queue_id = l.queue_id and b.job_id = l.job_id
                  and v.replaced_by = any (b.device_ids)))) end as device_id) p
    where p.device_id <> all ($10)
    group by l.queue_id, p.device_id
    order by l.queue_id, p.device_id)
  update pushq.recent_push r
  set (root_ids, job_ids, sent_at) = (
    select coalesce(array_agg(e.root order by e.at), '{}'),
           coalesce(array_agg(case when o.owner = any (g.arrived) then 0
                                   when o.owner = any (g.undecided) then -1 else e.job end order by e.at), '{}'),
           coalesce(array_agg(e.at order by e.at), '{}')
    from unnest(r.root_ids, r.job_ids, r.sent_at) e(root, job, at)
    -- A place belongs to the job that took it last: the recipient may continue in another one. An open place belongs to
    -- the send's job.
    cross join lateral (
      select case when e.job = -1 then g.job_ids[array_position(g.root_ids, e.root)] else e.job end as owner) o
    where (o.owner = any (g.job_ids)) is not true or o.owner = any (g.arrived) or o.owner = any (g.undecided))
  from given g
  where r.queue_id = g.queue_id and r.device_id = g.device_id and r.root_ids && g.root_ids
$$;

-- Deletes places that no cap needs any more, from up to `step` rows after a key. Returns the key of the last row; null
-- if there was none.
create or replace function pushq.forget_recent_pushes(step int, inout after_queue int, inout after_device bigint)
language plpgsql
set lock_timeout = '1s' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  with page as materialized (
    select r.queue_id, r.device_id, now() - pushq.cap_window(c.period) as kept_since, c.queue_id is null as is_lifted
    from (
      select queue_id, device_id
      from pushq.recent_push
      where (queue_id, device_id) > (after_queue, after_device)
        and queue_id <> all ((select pushq.queues_under_way())::int[])
      order by queue_id, device_id
      limit step) r
    left join pushq.frequency_cap c on c.queue_id = r.queue_id),
  -- A row that a producer has locked stays until the next round.
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
