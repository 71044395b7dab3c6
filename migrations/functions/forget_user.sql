-- Erasure of a user, for a person who wants to be forgotten.

-- Erases all of a user in a queue: for each of the user's devices what `pushq.forget_device` erases, and all that is
-- for the user, also if the user has no device: the user has logged out, or has not logged in yet. A device without a
-- user is nobody's, so a device from which the user has logged out is erased only by its token.
--
-- `devices`: the number of erased devices, with the older tokens of their installations. `sends`: the number of erased
-- sends. Both are 0 if nobody knows the user. The time it takes is that of `pushq.forget_device`, however many devices
-- there are.
create or replace function pushq.forget_user(queue text, user_key text, out devices bigint, out sends bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q       int := (pushq.enter(queue, sends => false)).q;
  deleted bigint[];
  places  bigint;                                         -- the user's places on lists
begin
  if coalesce(user_key, '') = '' then
    raise exception using errcode = 'PQ400',
      message = case when user_key is null then 'the user key is null' else 'the user key is empty' end,
      hint = 'name the user whose data is to be erased';
  end if;
  perform pushq.check_user_key(user_key);
  perform pushq.check_isolation('a user cannot be forgotten');
  perform pushq.lock_with_older(
    q, array(select d.id from pushq.device d where d.queue_id = q and d.user_key = forget_user.user_key));
  with theirs as (
    delete from pushq.device d
    where d.queue_id = q and d.user_key = forget_user.user_key
    returning d.id, d.token),
  reported as (
    delete from pushq.feedback_record f where f.queue_id = q and f.token in (select t.token from theirs t))
  select coalesce(array_agg(t.id), '{}') into deleted from theirs t;
  select f.devices, f.sends, f.places into devices, sends, places
  from pushq.forget_devices(q, deleted, '{}', user_key) f;
  if devices = 0 then
    -- What is recorded otherwise is that devices were forgotten.
    perform pushq.note_count(q, 'list_user', 'forgotten', places);
    perform pushq.note_count(q, 'send', 'forgotten', sends);
  end if;
end $$;
