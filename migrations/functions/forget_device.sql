-- Erasure of a device, for a person who wants to be forgotten.

-- Erases a device, its profile, APNs' reports about it, and every send that has no other recipient left: its message,
-- recipients and results. The recipients of campaigns keep the device's id, which leads nowhere, because its token and
-- user are gone. A send that a worker holds at this moment is cancelled, and is dropped with its day.
--
-- `known`: whether there was such a device. `sends`: how many were erased with it. Reads the lists of recipients of
-- the queue for as long as history is kept: seconds for some millions of sends.
create or replace function pushq.forget_device(queue text, token text, out known boolean, out sends bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q     int   := (pushq.enter(queue, sends => false)).q;
  bytes bytea := pushq.token(token);
  gone  bigint;
  roots bigint[];
begin
  perform pushq.check_isolation('a device cannot be forgotten');
  sends := 0;
  delete from pushq.feedback_record f where f.queue_id = q and f.token = bytes;
  delete from pushq.device d where d.queue_id = q and d.token = bytes returning d.id into gone;
  known := gone is not null;
  if not known then
    return;
  end if;
  delete from pushq.profile p where p.queue_id = q and p.device_id = gone;
  perform pushq.note_count(q, 'device', 'forgotten', 1, gone);
  delete from pushq.feedback f where f.queue_id = q and f.device_id = gone;
  delete from pushq.list_member m
  using pushq.list l
  where l.queue_id = q and m.queue_id = q and m.list_id = l.id and m.device_id = gone;
  delete from pushq.newest_update n where n.queue_id = q and n.recipient_id = gone;
  delete from pushq.recent_push r where r.queue_id = q and r.device_id = gone;
  delete from pushq.badge b where b.queue_id = q and b.device_id = gone;

  select coalesce(array_agg(distinct b.root_id), '{}') into roots
  from pushq.body b
  where b.queue_id = q and gone between b.first_device_id and b.last_device_id and gone = any (b.device_ids)
    and not exists (select from pushq.campaign c where c.queue_id = q and c.id = b.root_id)
    and not exists (
      select
      from pushq.body o
      cross join unnest(o.device_ids) i
      join pushq.device d on d.queue_id = q and d.id = i
      where o.queue_id = q and o.root_id = b.root_id);
  -- Waiting jobs are deleted at once. The holder of a job hears of it with its next flush.
  delete from pushq.job j
  using pushq.body b
  where b.queue_id = q and b.root_id = any (roots) and j.queue_id = q and j.id = b.job_id;
  insert into pushq.cancelled (queue_id, id)
  select distinct q, b.root_id
  from pushq.body b
  join pushq.lease l on l.queue_id = q and l.job_id = b.job_id
  where b.queue_id = q and b.root_id = any (roots)
  on conflict do nothing;
  roots := array(
    select r from unnest(roots) r where not exists (select from pushq.cancelled x where x.queue_id = q and x.id = r));

  delete from pushq.body b where b.queue_id = q and b.root_id = any (roots);
  delete from pushq.result r where r.queue_id = q and r.root_id = any (roots);
  delete from pushq.message m
  where m.queue_id = q and m.root_id = any (roots);
  delete from pushq.send_key k where k.queue_id = q and k.root_id = any (roots);
  sends := cardinality(roots);
end $$;
