-- Erasure of a device, for a person who wants to be forgotten.

-- Erases a device, its profile, APNs' reports about it, and every send that has no other recipient: its message,
-- recipients and results. The recipients of campaigns keep the device's id, which leads nowhere, because its token and
-- user are gone. A send that a worker holds at this moment is cancelled, and is dropped with its day. The older tokens
-- that the device has replaced are erased, too (`pushq.successors`), because pushes to them are for the same person. If
-- the user has no other device left, pushes to the user are erased for the same reason (`pushq.forget_users`).
--
-- The key of a send is kept as long as any other key, with only its root and the digest of its content: a repeated call
-- must not send to the person again.
--
-- `known`: whether the device existed. `sends`: the number of sends erased. The function reads the queue's recipients
-- and messages for as long as history is kept: seconds for some millions of sends.
create or replace function pushq.forget_device(queue text, token text, out known boolean, out sends bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q      int   := (pushq.enter(queue, sends => false)).q;
  bytes  bytea := pushq.token(token);
  device bigint;
  owner  text;                                            -- the device's user
begin
  perform pushq.check_isolation('a device cannot be forgotten');
  sends := 0;
  perform pushq.lock_tokens(q, bytes, null);
  delete from pushq.feedback_record f where f.queue_id = q and f.token = bytes;
  delete from pushq.device d where d.queue_id = q and d.token = bytes returning d.id, d.user_key into device, owner;
  known := device is not null;
  if known then
    sends := (pushq.forget_devices(q, array[device], array[owner], null)).sends;
  end if;
end $$;

-- Erases what is left of devices whose rows the caller has locked and deleted: the older tokens that they have
-- replaced, and for all of these together what `pushq.forget_device` says. History is read once, however many they are.
--
-- `owners`: the users of the deleted devices, erased if they have no other device. `user_key`: a user who is erased
-- whatever devices there are, also without one; null for none. `devices`: the number of erased devices, with the older
-- tokens. `sends`: the number of erased sends. `places`: the number of the users' places on lists.
create or replace function pushq.forget_devices(
  q int, deleted bigint[], owners text[], user_key text, out devices bigint, out sends bigint, out places bigint
)
language plpgsql as $$
declare
  owned_by text[];                                       -- users to whom one of the devices belonged
  users   text[];                                         -- users to erase
  gone    bigint[];                                       -- the devices and their older tokens
  one     bigint;
  lowest  bigint;
  highest bigint;
  roots   bigint[] := '{}';
  held    bigint[];                                       -- of `roots`: those that workers hold, or gave back meanwhile
  days    date[]   := pushq.days_of('message');
  reports date[]   := pushq.days_of('feedback');
begin
  with older as (
    delete from pushq.device d
    where d.queue_id = q and d.replaced_by = any (deleted)
    returning d.id, d.token, d.user_key),
  reported as (
    delete from pushq.feedback_record f where f.queue_id = q and f.token in (select o.token from older o))
  select deleted || coalesce(array_agg(o.id), '{}'),
         owners || forget_devices.user_key || coalesce(array_agg(o.user_key), '{}')
  into gone, users
  from older o;
  owned_by := users;
  users := array(
    select distinct u
    from unnest(users) u
    where u = forget_devices.user_key
      or u is not null and not exists (select from pushq.device d where d.queue_id = q and d.user_key = u));
  devices := cardinality(gone);

  if devices > 0 then
    select min(g), max(g) into lowest, highest from unnest(gone) g;
    delete from pushq.profile p where p.queue_id = q and p.device_id = any (gone);
    perform pushq.note_count(
      q, 'device', 'forgotten', devices, case when cardinality(deleted) = 1 then deleted[1] end);
    delete from pushq.feedback f where f.day = any (reports) and f.queue_id = q and f.device_id = any (gone);
    delete from pushq.list_member m
    using pushq.list l
    where l.queue_id = q and m.queue_id = q and m.list_id = l.id and m.device_id = any (gone);
    delete from pushq.newest_update n where n.queue_id = q and n.recipient_id = any (gone);
    -- One after the other: workers lock the rows of several devices in this order, first in one table and then in the
    -- other.
    for one in select g from unnest(gone) g order by g loop
      delete from pushq.recent_push r where r.queue_id = q and r.device_id = one;
    end loop;
    for one in select g from unnest(gone) g order by g loop
      delete from pushq.badge b where b.queue_id = q and b.device_id = one;
    end loop;

    select coalesce(array_agg(distinct b.root_id), '{}') into roots
    from pushq.body b
    where b.queue_id = q and b.first_device_id <= highest and b.last_device_id >= lowest and b.device_ids && gone
      and not exists (select from pushq.campaign c where c.queue_id = q and c.id = b.root_id)
      and not exists (
        select
        from pushq.body o
        cross join unnest(o.device_ids) i
        join pushq.device d on d.queue_id = q and d.id = i
        where o.queue_id = q and o.root_id = b.root_id)
      -- A scheduled send to several users: the devices of one are not known yet.
      and not exists (
        select from pushq.body o where o.queue_id = q and o.root_id = b.root_id and o.device_ids = '{}');
    -- A send to a user who had the device then, and has others now, is that user's.
    roots := array(
      select r
      from unnest(roots) r
      except
      select m.root_id
      from pushq.message m
      where m.day = any (days) and m.queue_id = q and m.root_id = any (roots) and m.user_key is not null
        and array_position(owned_by, m.user_key) is null);
  end if;
  if users <> '{}' then
    select roots || f.theirs, f.places into roots, places from pushq.forget_users(q, users, roots) f;
  end if;
  -- Waiting jobs are deleted at once. The holder of a job learns of it with its next flush.
  delete from pushq.job j
  using pushq.body b
  where b.queue_id = q and b.root_id = any (roots) and j.queue_id = q and j.id = b.job_id;
  -- One statement reads both tables: a job may have been given back since.
  held := array(
    select distinct b.root_id
    from pushq.body b
    where b.queue_id = q and b.root_id = any (roots)
      and (exists (select from pushq.lease l where l.queue_id = q and l.job_id = b.job_id)
        or exists (select from pushq.job j where j.queue_id = q and j.id = b.job_id)));
  insert into pushq.cancelled (queue_id, id) select q, h from unnest(held) h on conflict do nothing;
  roots := array(select r from unnest(roots) r where r <> all (held));

  delete from pushq.body b where b.queue_id = q and b.root_id = any (roots);
  delete from pushq.result r where r.queue_id = q and r.root_id = any (roots);
  delete from pushq.message m
  where m.day = any (days) and m.queue_id = q and m.root_id = any (roots);
  delete from pushq.empty_send e where e.queue_id = q and e.root_id = any (roots);
  sends := cardinality(roots);
end $$;

-- Erases what is for users and not for certain devices: removes them from the lists of users, and deletes the parts for
-- them in sends to several users. `theirs` are the roots of sends that are for no other user, without `known`; the
-- caller erases these. `places`: the number of their places on lists.
create or replace function pushq.forget_users(
  q int, users text[], known bigint[], out theirs bigint[], out places bigint
)
language plpgsql as $$
declare
  messages bigint[];
  involved bigint[];
  jobs     bigint[];                                      -- of the other sends: the jobs for these users
  held     bigint[];                                      -- of `jobs`: those that workers hold, or gave back meanwhile
  days     date[] := pushq.days_of('message');
begin
  delete from pushq.list_user m
  using pushq.list l
  where l.queue_id = q and m.queue_id = q and m.list_id = l.id and m.user_key = any (users);
  get diagnostics places = row_count;
  select array_agg(m.id), coalesce(array_agg(distinct m.root_id), '{}') into messages, involved
  from pushq.message m
  where m.day = any (days) and m.queue_id = q and m.user_key = any (users) and m.root_id <> all (known);
  -- One scan of the messages, not one for each send: there may be millions of messages.
  theirs := array(
    select unnest(involved)
    except
    select m.root_id
    from pushq.message m
    where m.day = any (days) and m.queue_id = q and m.root_id = any (involved) and m.id <> all (messages));
  -- The row may say which of the users had no device.
  delete from pushq.empty_send e where e.queue_id = q and e.root_id = any (involved) and e.root_id <> all (theirs);

  -- A waiting, a held and an ended job are in three different tables.
  jobs := array(
    select b.job_id
    from pushq.body b
    where b.queue_id = q and b.root_id = any (involved) and b.root_id <> all (theirs)
      and (
        exists (
          select from pushq.job j where j.queue_id = q and j.id = b.job_id and j.message_id = any (messages))
        or exists (
          select from pushq.lease l where l.queue_id = q and l.job_id = b.job_id and l.message_id = any (messages))
        or exists (
          select
          from pushq.result r
          where r.queue_id = q and r.root_id = b.root_id and r.job_id = b.job_id and r.message_id = any (messages))));
  delete from pushq.job j where j.queue_id = q and j.id = any (jobs);
  -- As above: the holder learns of it with its next flush, and the message is dropped with its day.
  held := array(
    select l.job_id from pushq.lease l where l.queue_id = q and l.job_id = any (jobs)
    union all
    select j.id from pushq.job j where j.queue_id = q and j.id = any (jobs));
  insert into pushq.cancelled (queue_id, id) select q, h from unnest(held) h on conflict do nothing;
  delete from pushq.body b
  where b.queue_id = q and b.root_id = any (involved) and b.job_id = any (jobs) and b.job_id <> all (held);
  delete from pushq.result r
  where r.queue_id = q and r.root_id = any (involved) and r.root_id <> all (theirs) and r.job_id = any (jobs);
  delete from pushq.message m
  where m.day = any (days) and m.queue_id = q and m.id = any (messages) and m.root_id <> all (theirs)
    and not exists (
      select from pushq.lease l where l.queue_id = q and l.job_id = any (held) and l.message_id = m.id)
    and not exists (
      select from pushq.job j where j.queue_id = q and j.id = any (held) and j.message_id = m.id);
end $$;
