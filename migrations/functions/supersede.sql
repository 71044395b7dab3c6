-- Makes a message replace those that are due earlier for the same recipients, as soon as it is due itself. Deletes rows
-- that this one makes unnecessary, except those that another transaction is writing. The ten rows before this one stay:
-- if this message is cancelled, the one before it is the newest again (`pushq.reinstate_replaced`), and so on.
create or replace function pushq.supersede(q int, recipients bigint[], message bigint, due_at timestamptz) returns void
language plpgsql as $$
begin
  insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
  select q, r, supersede.due_at, message from unnest(recipients) r;
  if due_at <= clock_timestamp() then
    delete from pushq.newest_update n
    where n.ctid = any (array(
      select o.ctid
      from pushq.newest_update o
      where o.queue_id = q and o.recipient_id = any (recipients)
        and (o.due_at, o.message_id) < (
          select p.due_at, p.message_id
          from pushq.newest_update p
          where p.queue_id = q and p.recipient_id = o.recipient_id
            and (p.due_at, p.message_id) < (supersede.due_at, message)
          order by p.due_at desc, p.message_id desc
          offset 9
          limit 1)
      for update skip locked));
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
    where j.queue_id = q and j.id = any (jobs) and r.n > j.watermark and (j.losses = 0 or j.at_most_once)
      and (j.outcomes is null or get_byte(j.outcomes, (r.n - 1)::int) = 0)
    for update of o skip locked));
end $$;
