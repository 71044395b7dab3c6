-- What badges (functions/badges.sql) and frequency caps (functions/frequency_cap.sql) have in common: a worker changes
-- the rows of many devices in `pushq.badge` or `pushq.recent_push`.
--
-- Transactions of producers keep such rows locked, or insert them, for as long as these last. A worker asks about the
-- recipients of many tenants with one statement, and its other pushes wait behind it. So it waits for the rows only for
-- some milliseconds. Workers wait for each other's turns before that.

-- Makes workers that are about the same devices take turns: waits until no other worker's statement is about one of
-- them. The recipients of a job are the elements of `device_ids` from its `firsts` to its `lasts`. So a row that is
-- locked or that cannot be inserted belongs to a producer, whose transaction may stay open.
--
-- Such statements take about 50 ms, and more on a busy machine. Returns false if this one waited two seconds for one
-- part, and got no turn.
create or replace function pushq.take_turns(queue_ids int[], firsts int[], lasts int[], device_ids bigint[])
returns boolean
language plpgsql set lock_timeout = '2s' set enable_seqscan = off as $$
declare
  -- Devices that were added one after another are in one part, because the jobs of a campaign have such devices. Their
  -- ids are 1024 apart.
  parts int[] := array(
    select distinct ((g.queue_id::bigint * 64 + (d.id >> 10) / 4096 % 64) & 16383)::int as part
    from unnest(queue_ids, firsts, lasts) g(queue_id, first, last)
    cross join lateral unnest(device_ids[g.first : g.last]) d(id)
    order by part);
begin
  if (select count(*) from pushq.device_turn t where t.part = any (parts)) < cardinality(parts) then
    insert into pushq.device_turn (part)
    select p from unnest(parts) with ordinality u(p, place) order by place
    on conflict on constraint device_turn_pkey do nothing;
  end if;
  perform from pushq.device_turn t where t.part = any (parts) order by t.part for no key update;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- The same for a worker that gives back what it has taken. It fails without a turn, and the worker tries again: else
-- what it has taken would stay taken.
create or replace function pushq.await_turns(queue_ids int[], firsts int[], lasts int[], device_ids bigint[])
returns void
language plpgsql as $$
begin
  if not pushq.take_turns(queue_ids, firsts, lasts, device_ids) then
    raise exception using errcode = 'lock_not_available',
      message = 'other workers count pushes to the same devices for more than two seconds';
  end if;
end $$;

-- Makes this transaction wait for each lock until a time, and for a millisecond if that has passed. Called by functions
-- that have a `lock_timeout` of their own, so it ends with them.
create or replace function pushq.wait_until(at timestamptz) returns void
language plpgsql as $$
begin
  perform set_config(
    'lock_timeout', greatest(1, ceil(extract(epoch from at - clock_timestamp()) * 1000))::int || 'ms', true);
end $$;

-- The recipients of jobs, each once: the queue and the device of each, at the same place of the two arrays. The
-- recipients of a job are the elements of `device_ids` from its `firsts` to its `lasts`.
--
-- The functions below look each device up in its own queue. With a condition on all queues and another one on all
-- devices, PostgreSQL before version 17 looks each device up in each queue.
create or replace function pushq.recipients_of_jobs(
  queue_ids int[], firsts int[], lasts int[], device_ids bigint[], out queues int[], out devices bigint[]
)
language sql immutable as $$
  select coalesce(array_agg(r.queue_id), '{}'), coalesce(array_agg(r.device_id), '{}')
  from (
    select distinct g.queue_id, d.id as device_id
    from unnest($1, $2, $3) g(queue_id, first, last)
    cross join lateral unnest($4[g.first : g.last]) d(id)
    order by g.queue_id, d.id) r
$$;

-- Locks the rows of devices, and waits until a time for those that others keep locked. Returns the devices whose rows
-- are still locked then. `tab` is `badge` or `recent_push`; `queue_ids` are the queues of `device_ids`.
create or replace function pushq.lock_rows(tab text, queue_ids int[], device_ids bigint[], until timestamptz)
returns bigint[]
language plpgsql
set lock_timeout = '1ms' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  loop
    -- Not an anti join: with a wrong estimate, it would compare each row with each.
    execute format(
      $sql$
      with free as materialized (
        select r.queue_id, r.device_id
        from unnest($1, $2) w(queue_id, device_id)
        join pushq.%1$I r on r.queue_id = w.queue_id and r.device_id = w.device_id
        for no key update of r skip locked)
      select coalesce(array_agg(l.queue_id), '{}'), coalesce(array_agg(l.device_id), '{}')
      from (
        select r.queue_id, r.device_id
        from unnest($1, $2) w(queue_id, device_id)
        join pushq.%1$I r on r.queue_id = w.queue_id and r.device_id = w.device_id
        except
        select f.queue_id, f.device_id from free f) l
      $sql$, tab)
    into queue_ids, device_ids
    using queue_ids, device_ids;
    exit when device_ids = '{}' or clock_timestamp() >= until;
    -- While it waits for one row, others become free.
    begin
      perform pushq.wait_until(until);
      execute format('select from pushq.%I where queue_id = $1 and device_id = $2 for no key update', tab)
      using queue_ids[1], device_ids[1];
    exception when lock_not_available then
      null;
    end;
  end loop;
  return device_ids;
end $$;

-- The devices among these that are inactive now, or deleted. `queue_ids` are their queues.
create or replace function pushq.inactive_among(queue_ids int[], device_ids bigint[]) returns bigint[]
language sql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
  select array(
    select unnest($2)
    except
    select d.id
    from unnest($1, $2) w(queue_id, device_id)
    join pushq.device d on d.queue_id = w.queue_id and d.id = w.device_id
    where d.active)
$$;

-- The devices among these, besides those known to be, that are inactive by now. A worker asks after it has written
-- their rows: a transaction that was replacing a token has kept the worker waiting until its end, and the token's row
-- was gone then.
create or replace function pushq.replaced_meanwhile(queue_ids int[], device_ids bigint[], known bigint[])
returns bigint[]
language sql as $$
  select array(
    select unnest(pushq.inactive_among($1, $2))
    except
    select unnest($3))
$$;

-- The recipients of jobs as above, and the devices that have replaced one of them.
create or replace function pushq.with_newer_tokens(
  queue_ids int[], firsts int[], lasts int[], device_ids bigint[], out queues int[], out devices bigint[]
)
language sql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
  select r.queues || coalesce(n.queues, '{}'), r.devices || coalesce(n.devices, '{}')
  from pushq.recipients_of_jobs($1, $2, $3, $4) r
  cross join lateral (
    select array_agg(d.queue_id) as queues, array_agg(d.replaced_by) as devices
    from unnest(r.queues, r.devices) w(queue_id, device_id)
    join pushq.device d on d.queue_id = w.queue_id and d.id = w.device_id
    where d.replaced_by is not null) n
$$;

-- Inserts empty rows for devices that have none.
create or replace function pushq.insert_rows(tab text, queue_ids int[], device_ids bigint[]) returns void
language plpgsql as $$
begin
  if tab = 'badge' then
    insert into pushq.badge (queue_id, device_id, count)
    select n.queue_id, n.device_id, 0 from unnest(queue_ids, device_ids) n(queue_id, device_id)
    on conflict do nothing;
  else
    insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
    select n.queue_id, n.device_id, '{}', '{}', '{}' from unnest(queue_ids, device_ids) n(queue_id, device_id)
    on conflict do nothing;
  end if;
end $$;

-- Finds the devices whose rows another transaction is inserting. Nobody can see such rows, but an insert waits for
-- them: so this inserts empty rows for all recipients of jobs, as in `pushq.take_badges`, except for the devices in
-- `except_devices`. It tries each tenant by itself. Where that fails, it tries halves, until a time. Returns the
-- devices that are left, among them all those with such rows.
create or replace function pushq.unseen_rows(
  tab text, queue_ids int[], firsts int[], lasts int[], device_ids bigint[], except_devices bigint[],
  until timestamptz
) returns bigint[]
language plpgsql set lock_timeout = '1ms' set enable_seqscan = off as $$
declare
  unseen  bigint[] := '{}';
  queues  int[];                                          -- the rows to insert, those of a tenant together
  devices bigint[];
  begins  int[];                                          -- the parts to try: their first and last rows
  ends    int[];
  tenants int;
  middle  int;
  this    int := 1;
begin
  with wanted as materialized (
    select distinct u.tenant_id, u.id as queue_id, d.id as device_id
    from unnest(queue_ids, firsts, lasts) g(queue_id, first, last)
    join pushq.queue u on u.id = g.queue_id
    cross join lateral unnest(device_ids[g.first : g.last]) d(id)
    where d.id <> all (except_devices)),
  placed as materialized (
    select w.*, row_number() over (order by w.tenant_id, w.queue_id, w.device_id) as place from wanted w),
  tenant as (select min(p.place) as first, max(p.place) as last from placed p group by p.tenant_id)
  select (select array_agg(p.queue_id order by p.place) from placed p),
         (select array_agg(p.device_id order by p.place) from placed p),
         array_agg(t.first order by t.first), array_agg(t.last order by t.first), count(*)
  into queues, devices, begins, ends, tenants
  from tenant t;
  while this <= coalesce(cardinality(begins), 0) loop
    if this > tenants and clock_timestamp() >= until then
      unseen := unseen || devices[begins[this] : ends[this]];
    else
      begin
        perform pushq.insert_rows(tab, queues[begins[this] : ends[this]], devices[begins[this] : ends[this]]);
      exception when lock_not_available then
        if begins[this] = ends[this] then
          unseen := unseen || devices[begins[this]];
        else
          middle := (begins[this] + ends[this]) / 2;
          begins := begins || begins[this] || middle + 1;
          ends := ends || middle || ends[this];
        end if;
      end;
    end if;
    this := this + 1;
  end loop;
  return unseen;
end $$;

-- Takes figures or places for the recipients of jobs (`pushq.take_badges`, `pushq.hold_to_caps`). Returns what
-- `pushq.take_free_badges` or `pushq.take_free_places` return, and the recipients whose rows another transaction keeps
-- (`is_kept`).
create or replace function pushq.take_rows(
  tab text, worker bigint, queue_ids int[], job_ids bigint[], epochs int[], increments int[], firsts int[],
  lasts int[], device_ids bigint[], patience interval
) returns table (queue_id int, job_id bigint, device_id bigint, value bigint, is_kept boolean)
language plpgsql set lock_timeout = '1ms' set enable_seqscan = off as $$
#variable_conflict use_column
declare
  until    pg_catalog.timestamptz;
  all_of   record;                                        -- all recipients, and their queues
  waiting  bigint[];                                      -- recipients that another transaction keeps
  replaced bigint[];                                      -- recipients whose tokens were replaced meanwhile
  is_taken boolean := false;
  is_known boolean := false;                              -- whether rows that others insert were looked for
  queues   int[];                                         -- what was taken
  jobs     bigint[];
  devices  bigint[];
  taken    bigint[];
begin
  -- Without a turn, it finds some of the rows kept.
  perform pushq.take_turns(queue_ids, firsts, lasts, device_ids);
  until := clock_timestamp() + patience;
  all_of := pushq.recipients_of_jobs(queue_ids, firsts, lasts, device_ids);
  -- After this, each transaction that moved other rows than these has ended, so the check for inactive devices sees
  -- what it did.
  waiting := pushq.lock_rows(tab, all_of.queues, all_of.devices, until);
  waiting := waiting || pushq.inactive_among(all_of.queues, all_of.devices);
  loop
    begin
      perform pushq.wait_until(until);
      if tab = 'badge' then
        select array_agg(t.queue_id), array_agg(t.job_id), array_agg(t.device_id), array_agg(t.figure)
        into queues, jobs, devices, taken
        from pushq.take_free_badges(
          worker, queue_ids, job_ids, epochs, increments, firsts, lasts, device_ids, waiting) t;
      else
        select array_agg(t.queue_id), array_agg(t.job_id), array_agg(t.device_id), array_agg(t.wait)
        into queues, jobs, devices, taken
        from pushq.take_free_places(worker, queue_ids, job_ids, epochs, firsts, lasts, device_ids, waiting) t;
      end if;
      replaced := pushq.replaced_meanwhile(all_of.queues, all_of.devices, waiting);
      if replaced <> '{}' then
        raise exception using errcode = 'PQ001', message = 'rows were taken for tokens that were replaced';
      end if;
      is_taken := true;
      exit;
    exception
      when sqlstate 'PQ001' then waiting := waiting || replaced;
      when lock_not_available then
        exit when is_known;
        waiting := waiting || pushq.unseen_rows(
          tab, queue_ids, firsts, lasts, device_ids, waiting, clock_timestamp() + patience);
        -- What was inserted meanwhile can be seen now.
        waiting := waiting || pushq.lock_rows(tab, all_of.queues, all_of.devices, until)
          || pushq.inactive_among(all_of.queues, all_of.devices);
        is_known := true;
    end;
  end loop;
  if is_taken then
    return query select t.*, false from unnest(queues, jobs, devices, taken) t;
  end if;
  return query
  select g.queue_id, g.job_id, d.id, null::bigint, true
  from unnest(queue_ids, job_ids, firsts, lasts) g(queue_id, job_id, first, last)
  cross join lateral unnest(device_ids[g.first : g.last]) d(id)
  where not is_taken or d.id = any (waiting);
end $$;
