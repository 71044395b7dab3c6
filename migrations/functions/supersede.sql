-- Makes a message replace those that are due earlier for the same recipients, as soon as it is due itself. Deletes rows
-- that this one makes unnecessary, except those that another transaction is writing. The ten rows before this one stay:
-- if this message is cancelled, the one before it is the newest again (`pushq.reinstate_replaced`), and so on. The last
-- of the ten is the floor: nobody knows any more which of the older updates is the newest, so none of them is sent.
create or replace function pushq.supersede(q int, recipients bigint[], message bigint, due_at timestamptz) returns void
language plpgsql as $$
begin
  insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
  select q, r, supersede.due_at, message from unnest(recipients) r;
  if due_at <= clock_timestamp() then
    with tenth as materialized (
      select x.ctid, x.recipient_id, x.due_at, x.message_id
      from unnest(recipients) r(id)
      cross join lateral (
        select p.ctid, p.recipient_id, p.due_at, p.message_id
        from pushq.newest_update p
        where p.queue_id = q and p.recipient_id = r.id and (p.due_at, p.message_id) < (supersede.due_at, message)
        order by p.due_at desc, p.message_id desc
        offset 9
        limit 1) x),
    gone as (
      delete from pushq.newest_update n
      where n.ctid = any (array(
        select o.ctid
        from tenth t
        join pushq.newest_update o
          on o.queue_id = q and o.recipient_id = t.recipient_id
            and (o.due_at, o.message_id) < (t.due_at, t.message_id)
        for update of o skip locked))
      returning n.recipient_id)
    update pushq.newest_update n
    set is_floor = true
    where n.ctid = any (array(
      select k.ctid
      from tenth t
      join pushq.newest_update k
        on k.queue_id = q and k.recipient_id = t.recipient_id and k.due_at = t.due_at and k.message_id = t.message_id
      where not k.is_floor and t.recipient_id in (select g.recipient_id from gone g)
      for update of k skip locked));
  end if;
end $$;

-- Makes jobs that are being cancelled replace nothing any more, for recipients that certainly got no push from them:
-- those after the watermark of waiting jobs of which no send was lost. A job that a worker holds may have been sent to
-- any recipient by now, and an older update that came after it would stay on the screen.
create or replace function pushq.reinstate_replaced(q int, jobs bigint[]) returns void
language plpgsql as $$
begin
  delete from pushq.newest_update n
  where n.ctid = any (array(
    select o.ctid
    from pushq.job j
    join pushq.message m on m.day = j.body_day and m.queue_id = q and m.id = j.message_id and m.replaces
    join pushq.body b on b.day = j.body_day and b.queue_id = q and b.job_id = j.id
    cross join lateral unnest(b.device_ids) with ordinality r(id, n)
    join pushq.newest_update o on o.queue_id = q and o.recipient_id = r.id and o.message_id = j.message_id
      and not o.is_floor
    where j.queue_id = q and j.id = any (jobs) and r.n > j.watermark and (j.losses = 0 or j.at_most_once)
      and (j.outcomes is null or get_byte(j.outcomes, (r.n - 1)::int) = 0)
    for update of o skip locked));
end $$;

-- The recipients of a claimed job of a Live Activity that may be sent to: active devices with a token of this kind, or
-- the channel of a broadcast. Recipients that have a newer update are missing. `due_at` is when the message is due, and
-- `has_clock` whether it belongs to a campaign at a local time.
--
-- Only claims call it, for such jobs alone. Within the claim's statement, these look-ups cost every claim 20 µs. Each
-- recipient is probed, whatever the statistics say: a queue may have many updates.
create or replace function pushq.update_recipients(
  q int, root bigint, job bigint, message bigint, due_at timestamptz, kind text, is_broadcast boolean,
  has_clock boolean, recipients bigint[]
) returns table (id bigint, token bytea, user_key text)
language plpgsql stable rows 100
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off as $$
#variable_conflict use_column
begin
  if is_broadcast then
    return query
    select c.id, convert_to(c.channel, 'UTF8'), null::text
    from pushq.channel c
    where c.queue_id = q and c.id = any (recipients) and c.retired_at is null
      and not exists (
        select
        from pushq.newest_update n
        where n.queue_id = q and n.recipient_id = c.id and n.due_at <= clock_timestamp()
          and (n.due_at, n.message_id) > (update_recipients.due_at, message));
    return;
  end if;
  return query
  select d.id, d.token, d.user_key
  from pushq.device d
  where d.queue_id = q and d.id = any (recipients) and d.active
    and (d.kind is null or d.kind = update_recipients.kind or d.registered_at is null)
    and not exists (
      select
      from pushq.newest_update n
      where n.queue_id = q and n.recipient_id = d.id and n.due_at <= clock_timestamp()
        -- A campaign at a local time is due at another time in each zone: its first jobs are made then, and the numbers
        -- of later messages are higher.
        and case when not has_clock then (n.due_at, n.message_id) > (update_recipients.due_at, message)
                 else n.message_id > (
                   select coalesce(min(o.job_id), job)
                   from pushq.body o
                   where o.queue_id = q and o.root_id = root and o.slice = 0
                     and o.first_device_id <= d.id and o.last_device_id >= d.id and d.id = any (o.device_ids)) end);
end $$;
