-- The devices that a send to a user goes to.

-- The active devices of a user whose tokens are of this kind, ascending; null for none. If the message starts a Live
-- Activity of type `started`, only tokens for that type or without a type; `started` is null for other messages.
--
-- The statement is planned once for all queues, as those of registrations are (registration.sql): for a queue that is
-- not in the statistics, PostgreSQL 16 and later would read all devices of the queue.
create or replace function pushq.devices_of_user(q int, user_key text, kind text, started text) returns bigint[]
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
  return (
    select array_agg(d.id order by d.id)
    from pushq.device d
    where d.queue_id = q and d.user_key = devices_of_user.user_key and d.active
      and coalesce(d.kind, 'alert') = devices_of_user.kind
      and (started is null or not pushq.starts_another(q, d.id, started)));
end $$;

-- Why a send has no recipient: a send to a user, or to a list of tokens if `user_key` is null. `kind` is the kind of
-- tokens that its message needs, and `started` the type that it starts.
create or replace function pushq.why_nobody(q int, user_key text, kind text, started text) returns text
language plpgsql stable as $$
begin
  return case
    when user_key is null then 'the list of tokens is empty'
    when exists (select from pushq.device d where d.queue_id = q and d.user_key = why_nobody.user_key and d.active)
      then format('no active device of user “%s” has a token for %s', user_key, kind)
           || coalesce(' of type “' || started || '”', '')
    when exists (select from pushq.device d where d.queue_id = q and d.user_key = why_nobody.user_key)
      then format('no device of user “%s” is active in this queue', user_key)
    else format('user “%s” has no device in this queue', user_key) end;
end $$;

-- The same for a send to several users.
create or replace function pushq.why_none_of_users(started text) returns text
language plpgsql immutable as $$
begin
  return case when started is null then 'none of the users has an active device in this queue'
              else format('none of the users has an active device with a token that starts “%s”', started) end;
end $$;

-- Records why a send has reached no device. Returns false if another transaction has deleted the record, or is writing
-- it, and has not ended at `until`.
create or replace function pushq.note_empty_send(q int, root bigint, reason text, started text, until timestamptz)
returns boolean
language plpgsql set lock_timeout = '1ms' as $$
begin
  perform pushq.wait_until(until);
  insert into pushq.empty_send (queue_id, root_id, why) values (q, root, reason)
  -- In a send to several users, several may have no device.
  on conflict (queue_id, root_id) do update
    set why = pushq.why_none_of_users(started)
  where empty_send.why <> excluded.why;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Takes claimed jobs that have no recipients yet out of the queue: deletes their leases and bodies, and returns the
-- leases. Leases that are locked, or no longer belong to `worker`, are skipped, and so are jobs with recipients.
--
-- It runs with the owner's rights, so that a worker's login needs none to delete recipients: a body also says who got a
-- push, for as long as the tenant keeps that.
create or replace function pushq.take_unfound(queues int[], jobs bigint[], epochs int[], worker bigint)
returns setof pushq.lease
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  held pushq.lease;
begin
  for held in
    select l.*
    from unnest(queues, jobs, epochs) as g(queue_id, job_id, epoch)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = worker
    for update of l skip locked
  loop
    -- One statement for each job, because PostgreSQL may otherwise hash-join all of history.
    delete from pushq.body b
    where b.day = held.body_day and b.queue_id = held.queue_id and b.job_id = held.job_id and b.device_ids = '{}';
    continue when not found;
    delete from pushq.lease l where l.queue_id = held.queue_id and l.job_id = held.job_id;
    return next held;
  end loop;
end $$;

-- Puts a job whose recipients are not found yet back among the waiting jobs, due in a second. `held` is the lease that
-- it had, which `pushq.take_unfound` has deleted with its body.
create or replace function pushq.find_later(held pushq.lease) returns void
language sql as $$
  insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
  values (held.body_day, held.queue_id, held.job_id, held.root_id, 0, 0, '{}');
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                         recipient_count, attempt, losses, epoch, at_most_once, watermark)
  values (held.queue_id, held.job_id, held.lane, now() + interval '1 second', held.send_by, held.message_id,
          held.campaign_id, held.root_id, held.body_day, held.recipient_count, held.attempt, held.losses,
          held.epoch, held.at_most_once, 0)
$$;

-- Finds the recipients of claimed jobs that have none yet: scheduled sends to a user. Each such job becomes jobs for
-- the devices that the user has now, with the same place in the queue, or a record that there are none. Leases that are
-- locked, or no longer belong to `worker`, are skipped. A job whose message or record another transaction keeps waits
-- for a second, so that the worker does not wait for that transaction.
create or replace function pushq.find_recipients(queues int[], jobs bigint[], epochs int[], worker bigint) returns void
language plpgsql as $$
declare
  held  pushq.lease;
  m     pushq.message;
  aim   pg_catalog.text;                                  -- the kind of device that the message is for
  started pg_catalog.text;                                -- the type of Live Activity that it starts
  ids   bigint[];
  apart bigint[];                                         -- messages that other transactions are copying
  until pg_catalog.timestamptz := clock_timestamp() + interval '50 ms';
begin
  select array_agg(b.message_id) into apart
  from (
    select array_agg(l.queue_id) as queues, array_agg(l.message_id) as messages, array_agg(l.body_day) as days
    from unnest(queues, jobs, epochs) as g(queue_id, job_id, epoch)
    join pushq.lease l
      on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.worker_id = worker) a,
    pushq.bring_messages(a.queues, a.messages, a.days) b;
  for held in
    select l.*
    from pushq.take_unfound(queues, jobs, epochs, worker) l
    -- All workers use the same order: two of them may record why one send reaches no device.
    order by l.queue_id, l.root_id, l.job_id
  loop
    if held.message_id = any (apart) then
      perform pushq.find_later(held);
      continue;
    end if;
    select * into m
    from pushq.message k
    where k.day = held.body_day and k.queue_id = held.queue_id and k.id = held.message_id;
    aim := pushq.message_kind(m.push_type, m.payload);
    started := pushq.started_type(m.push_type, m.payload);
    ids := pushq.devices_of_user(held.queue_id, m.user_key, aim, started);
    if ids is null then
      if not pushq.note_empty_send(
        held.queue_id, held.root_id, pushq.why_nobody(held.queue_id, m.user_key, aim, started), started,
        until) then
        perform pushq.find_later(held);
        continue;
      end if;
    end if;
    continue when ids is null;
    -- One job, which keeps its id, unless there are too many: whoever cancels it means all devices of the user.
    perform pushq.make_jobs(
      held.queue_id, held.root_id, held.message_id, ids, held.lane, held.run_at, held.send_by, held.at_most_once,
      per_job => 500, first_job => held.job_id, epoch => held.epoch);
    if m.replaces and not exists (
      select from pushq.cancelled x where x.queue_id = held.queue_id and x.id in (held.root_id, held.job_id)) then
      perform pushq.supersede(held.queue_id, ids, held.message_id, m.due_at);
    end if;
  end loop;
end $$;
