-- Badges that count: a message with {"badge": {"increment": 1}} raises the number on the app's icon, on each device
-- separately. docs/messages.md explains it.
--
-- Before a worker sends, it takes a figure for each recipient (`pushq.take_badges`). A message raises a device's count
-- once: a worker that sends it to the device again sends the count of that moment, because newer messages may have
-- arrived meanwhile, and the number on the icon must not fall. When a job ends and a recipient got nothing, the worker
-- gives its increment back (`pushq.give_back_badges`). It does so, too, if the recipient is to wait for hours: in a
-- paused campaign, or for the end of quiet hours. Then the message is counted anew when it is sent. So a count covers
-- the messages since the app's last reset that arrived, may have arrived, are being sent, or are sent again soon.

-- By how much a message raises badges; null if it does not. Few messages do, and only payloads that may contain an
-- increment are parsed.
create or replace function pushq.badge_increment(payload json, push_type text) returns smallint
language sql immutable parallel safe as $$
  select case when push_type = 'alert' and (strpos(payload::text, 'increment') > 0 or strpos(payload::text, E'\\u') > 0)
              then (payload #>> '{aps,badge,increment}')::smallint end
$$;

-- The maximum number of bytes that are sent of a payload: it has the longest figure instead of the increment.
create or replace function pushq.sent_bytes(payload json) returns int
language sql immutable as $$
  select octet_length(payload::text)
    - case when strpos(payload::text, 'increment') > 0 or strpos(payload::text, E'\\u') > 0 then
        case when json_typeof(payload) = 'object' and pushq.has_readable_escapes(payload::text) then
          case when json_typeof(payload #> '{aps,badge}') = 'object'
               then octet_length((payload #> '{aps,badge}')::text) - 5 else 0 end
        else 0 end
      else 0 end
$$;

-- A payload with a figure instead of the increment, for people to look at. Workers find the place by parsing the JSON
-- (QueueCore/Message/PayloadTemplate.swift).
create or replace function pushq.with_badge(payload text, figure int) returns text
language sql immutable parallel safe as $$
  select regexp_replace(payload, E'("badge"\\s*:\\s*)\\{\\s*"increment"\\s*:\\s*[0-9]+\\s*\\}', E'\\1' || figure)
$$;

-- Takes figures for the recipients of jobs that `worker` holds. Each job raises badges by its element of `increments`.
-- Its recipients are the elements of `device_ids` from its `firsts` to its `lasts`.
--
-- Returns a row for each recipient. The figure is null if another transaction keeps the badge locked: a transaction
-- that changes badges and stays open for an hour delays only the pushes to these devices. The figure is also null for a
-- device that was deactivated or deleted after the worker read its token: its badge may have moved to a newer token
-- (`pushq.pass_on`), to which the push continues when the worker asks again.
--
-- `patience` is the time in which it waits for rows that producers keep. After that, it takes up to the same time again
-- to find out which rows it cannot get.
create or replace function pushq.take_badges(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], increments int[], firsts int[], lasts int[],
  device_ids bigint[], patience interval
) returns table (queue_id int, job_id bigint, device_id bigint, figure int)
language sql as $$
  select t.queue_id, t.job_id, t.device_id, t.value::int
  from pushq.take_rows('badge', $1, $2, $3, $4, $5, $6, $7, $8, $9) t
$$;

-- Takes figures, except for the devices in `except_devices`. It is remembered that a message was counted until three
-- days after it may be sent, if it is one of the device's last hundred messages: once its time is over, it gives its
-- figure back when its job ends, or gets a new end and is sent again.
create or replace function pushq.take_free_badges(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], increments int[], firsts int[], lasts int[],
  device_ids bigint[], except_devices bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, figure int)
language plpgsql set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  with held as materialized (
    select l.queue_id, l.job_id, l.root_id, l.send_by, g.increment, g.first, g.last, g.place
    from unnest(queue_ids, job_ids, epochs, increments, firsts, lasts) with ordinality
      as g(queue_id, job_id, epoch, increment, first, last, place)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
      and l.worker_id = worker),
  -- Figures for devices that have no badge yet. A device may be in several of the jobs, which are counted in their
  -- order.
  asked as materialized (
    select h.queue_id, h.job_id, h.root_id, h.send_by, d.id as device_id,
           (sum(h.increment) over (partition by h.queue_id, d.id order by h.place))::int as figure
    from held h
    cross join lateral unnest(device_ids[h.first : h.last]) d(id)
    where d.id <> all (except_devices)),
  -- One row for each device. All workers take the rows in the same order, so that no two wait for each other.
  taken as (
    insert into pushq.badge as b (queue_id, device_id, count, root_ids, figures, kept_until)
    select a.queue_id, a.device_id, max(a.figure), array_agg(a.root_id order by a.figure desc),
           array_agg(a.figure order by a.figure desc), array_agg(a.send_by order by a.figure desc)
    from asked a
    group by a.queue_id, a.device_id
    order by a.queue_id, a.device_id
    on conflict on constraint badge_pkey do update
      set (count, root_ids, figures, kept_until) = (
        select max(e.count), array_agg(e.root order by e.place),
               -- A message that was counted before brings the count of now.
               array_agg(coalesce(e.figure, e.count) order by e.place), array_agg(e.until order by e.place)
        from (
          select k.*, (b.count + sum(k.increment) over ())::int as count
          from (
            select n.root, (b.count + sum(n.increment) over (order by n.place desc))::int as figure, n.until,
                   n.increment, n.place - cardinality(excluded.root_ids) as place
            from (
              select x.root, x.until, x.place,
                     x.figure - coalesce(lead(x.figure) over (order by x.place), 0) as increment
              from unnest(excluded.root_ids, excluded.figures, excluded.kept_until) with ordinality
                as x(root, figure, until, place)) n
            where n.root <> all (b.root_ids)
            union all
            select x.root, case when x.root <> all (excluded.root_ids) then x.figure end, x.until, 0, x.place
            from unnest(b.root_ids, b.figures, b.kept_until) with ordinality x(root, figure, until, place)
            where x.root = any (excluded.root_ids) or x.until >= now() - interval '3 days' and x.place <= 100) k) e)
    returning b.queue_id, b.device_id, b.root_ids, b.figures)
  select a.queue_id, a.job_id, a.device_id, least(f.figure, 99999)
  from taken t
  cross join lateral unnest(t.root_ids, t.figures) f(root, figure)
  join asked a on a.queue_id = t.queue_id and a.device_id = t.device_id and a.root_id = f.root;
end $$;

-- Gives back the increments of recipients that got nothing: the elements of `device_ids` from a job's `firsts` to its
-- `lasts`. The lease fences this, and its row is only read: a worker gives back right before it ends the job, or makes
-- these recipients wait. If that fails, the next holder takes new figures for the recipients that it sends to. Giving
-- back twice has the effect of once, and giving back what was not counted has none.
--
-- A badge that another transaction keeps locked for more than 50 ms stays unchanged, perhaps one too high. A worker
-- that waited for it could not renew its leases meanwhile, and pushes of other tenants would be sent twice.
create or replace function pushq.give_back_badges(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], increments int[], firsts int[], lasts int[],
  device_ids bigint[]
) returns void
language plpgsql set lock_timeout = '50ms' as $$
begin
  perform pushq.await_turns(queue_ids, firsts, lasts, device_ids);
  -- Again if a badge has moved at this moment, and its new row is locked.
  for try in 1..3 loop
    begin
      perform pushq.give_back_free_badges(
        worker, queue_ids, job_ids, epochs, increments, firsts, lasts, device_ids,
        pushq.lock_rows('badge', r.queues, r.devices, clock_timestamp() + interval '50 ms'))
      from pushq.with_newer_tokens(queue_ids, firsts, lasts, device_ids) r;
      return;
    exception when lock_not_available then
      null;
    end;
  end loop;
end $$;

-- Gives back as above, except for the devices in `except_devices`. It goes in the order of devices, in which figures
-- are taken, too.
create or replace function pushq.give_back_free_badges(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], increments int[], firsts int[], lasts int[],
  device_ids bigint[], except_devices bigint[]
) returns void
language sql set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
  with given as materialized (
    -- One row for each device: an update changes a row only once, however many of the jobs concern it.
    select l.queue_id, p.device_id, array_agg(l.root_id) as root_ids, array_agg(g.increment) as increments
    from unnest($2, $3, $4, $5, $6, $7) as g(queue_id, job_id, epoch, increment, first, last)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = $1
    cross join lateral unnest($8[g.first : g.last]) d(device_id)
    cross join lateral (
      select case
        when exists (
          select
          from pushq.badge h
          where h.queue_id = l.queue_id and h.device_id = d.device_id and h.root_ids @> array[l.root_id])
          then d.device_id
        -- A badge moves to the newer token of a device, even while the message waits or is being sent
        -- (pushq.pass_on). If that is a recipient itself, its own job gives back.
        else (
          select v.replaced_by
          from pushq.device v
          cross join lateral pushq.recipient_of(l.queue_id, l.root_id, v.replaced_by) r
          where v.queue_id = l.queue_id and v.id = d.device_id and not r.is_recipient) end as device_id) p
    where p.device_id <> all ($9)
    group by l.queue_id, p.device_id
    order by l.queue_id, p.device_id)
  update pushq.badge b
  set count = greatest(0, b.count - (
        select coalesce(sum(u.increment), 0)
        from unnest(g.root_ids, g.increments) u(root, increment)
        where u.root = any (b.root_ids))),
      (root_ids, figures, kept_until) = (
        select coalesce(array_agg(e.root order by e.place), '{}'),
               coalesce(array_agg(e.figure order by e.place), '{}'),
               coalesce(array_agg(e.until order by e.place), '{}')
        from unnest(b.root_ids, b.figures, b.kept_until) with ordinality e(root, figure, until, place)
        where e.root <> all (g.root_ids))
  from given g
  where b.queue_id = g.queue_id and b.device_id = g.device_id and b.root_ids && g.root_ids
$$;

-- Sets the number that an app shows on its icon; the default 0 means that its user has seen everything. The next
-- message that raises the device's badge starts from this number. With `user_key`, it applies to all devices of the
-- user. Returns the number of devices.
create or replace function pushq.set_badge(
  queue text, token text default null, user_key text default null, badge int default 0
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  q     int := (pushq.enter(queue, sends => false)).q;
  bytes bytea;
  ids   bigint[];
begin
  if (token is null) = (user_key is null) then
    raise exception using errcode = 'PQ400', message = 'setting a badge needs either a token or a user_key';
  elsif badge is null or badge not between 0 and 99999 then
    raise exception using errcode = 'PQ400',
      message = format('badge %s is out of range: use 0 to 99999', coalesce(badge::text, 'null'));
  end if;
  perform pushq.check_user_key(user_key);
  if token is not null then
    bytes := pushq.token(token);
    ids := array(select d.id from pushq.device d where d.queue_id = q and d.token = bytes);
    if ids = '{}' then
      -- The app may have registered the token since the transaction began.
      perform pushq.check_isolation('the badge of a token that is not known cannot be set');
    end if;
  else
    ids := array(
      select d.id from pushq.device d where d.queue_id = q and d.user_key = set_badge.user_key order by d.id);
  end if;
  if badge = 0 and current_setting('transaction_isolation') like 'read %' then
    perform pushq.forget_badges(q, ids);
  elsif badge = 0 then
    -- The transaction may not see a device's first row, which a worker has added since it began. Then this fails with
    -- 40001, as the statement below does.
    perform pushq.forget_badges_at_once(q, ids);
  else
    insert into pushq.badge as b (queue_id, device_id, count)
    select q, i, badge from unnest(ids) i order by i
    on conflict on constraint badge_pkey do update
      set count = excluded.count, root_ids = '{}', figures = '{}', kept_until = '{}';
  end if;
  return cardinality(ids);
end $$;

-- Resets the badges of devices. It locks them in the order in which workers take figures.
create or replace function pushq.forget_badges(q int, devices bigint[]) returns void
language plpgsql as $$
begin
  perform from pushq.badge b where b.queue_id = q and b.device_id = any (devices) order by b.device_id for update;
  delete from pushq.badge b where b.queue_id = q and b.device_id = any (devices);
end $$;

-- The same for the few devices of a call of an app. A worker may be adding the first row of a device, which cannot be
-- seen yet: the insert waits for it.
create or replace function pushq.forget_badges_at_once(q int, devices bigint[]) returns void
language plpgsql as $$
begin
  insert into pushq.badge (queue_id, device_id, count)
  select q, d, 0 from unnest(devices) d where d is not null order by d
  on conflict on constraint badge_pkey do nothing;
  perform pushq.forget_badges(q, devices);
end $$;
