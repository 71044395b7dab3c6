-- Sends one message to some tokens, or to all devices of a user. A device that another user has registered by the time
-- of sending gets nothing. A scheduled send to a user goes to the devices that the user has then. Returns the root of
-- the send, from which each recipient's apns-id derives. If there is no recipient, only the reason is recorded. With
-- `key`, a repeated call returns the root of the first call, and the same key with other content is an error. With
-- `replace_waiting`, an update of a Live Activity replaces those that still wait for the same token.
--
-- `user_keys` are several users, each of whom is handled like `user_key`.
--
-- `payload` is json, jsonb or text. Its type is polymorphic, because a literal would fit several functions equally
-- well.
create or replace function pushq.send(
  queue        text,
  payload      anycompatible,
  tokens       text[]      default null,
  user_key     text        default null,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  run_at       timestamptz default now(),
  send_by      timestamptz default null,
  replace_waiting boolean  default false,
  key          text        default null,
  traceparent  text        default null,
  user_keys    text[]      default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  door    record := pushq.enter(queue, sends => true);
  body    json   := pushq.payload_json(payload);
  root    bigint;
  sent    bigint;
  q       int;
  aim     text;
  started text;                                           -- the type of Live Activity that is started
  due_at  timestamptz;
  earlier bigint;
  message bigint;
  parsed  bytea[];
  ids     bigint[];
  fresh   bigint := 0;
  sleeps  boolean;                                        -- whether a worker sleeps and has to be woken
begin
  -- Few sends have any of these, so one expression checks them all: each separate expression is set up again in each
  -- transaction.
  if num_nonnulls(user_key, user_keys, key, traceparent, send_by, expiration) > 0 or tokens is null
    or run_at is distinct from now() or num_nulls(at_most_once, urgent, replace_waiting) > 0 or replace_waiting
    or at_most_once or queue like '%/web.%' then
    at_most_once := coalesce(at_most_once, false);
    urgent := coalesce(urgent, false);
    replace_waiting := coalesce(replace_waiting, false);
    run_at := coalesce(run_at, now());
    if num_nonnulls(tokens, user_key, user_keys) <> 1 then
      raise exception using errcode = 'PQ400', message = 'a send needs exactly one of tokens, user_key and user_keys';
    elsif cardinality(user_keys) > 1000 then
      raise exception using errcode = 'PQ400',
        message = format('a send is for at most 1000 users, not %s', cardinality(user_keys)),
        hint = 'start a campaign to a list: pushq.new_list, pushq.add_users_to_list';
    elsif replace_waiting and (push_type <> 'liveactivity' or body #>> '{aps,event}' = 'start') then
      raise exception using errcode = 'PQ400', message = 'replace_waiting is for updates and ends of Live Activities',
        hint = 'other pushes replace each other on the device, by their collapse ID';
    end if;
    if user_key is not null then
      perform pushq.check_user_key(user_key);
    end if;
    if user_keys is not null then
      perform pushq.check_user_keys(user_keys);
    end if;
    if traceparent is not null then
      perform pushq.check_traceparent(traceparent);
    end if;
    if key is not null then
      root := nextval('pushq.id');
      -- Times are not compared: a repeated call may compute them again, or come after them. The traceparent is not
      -- compared either, because the repetition is an operation of its own. Recipients may come in another order, and
      -- tokens may be written differently.
      earlier := pushq.earlier_send(door.q, key, root, sha256(convert_to(
        row(pushq.content(body),
            case when cardinality(tokens) = 1 and tokens[1] is not null
                   then array[encode(pushq.token(tokens[1]), 'hex')]
                 when tokens is not null
                   then pushq.set_of(array(select encode(t, 'hex') from unnest(pushq.tokens(tokens)) t)) end,
            -- One user is the same user in either argument.
            case when user_keys is null then user_key
                 when cardinality(pushq.set_of(user_keys)) = 1 then (pushq.set_of(user_keys))[1]
                 else to_json(pushq.set_of(user_keys))::text end, push_type,
            priority, collapse_id, at_most_once, urgent, replace_waiting)::text,
        'UTF8')), greatest(run_at, clock_timestamp()));
      if earlier is not null then
        return earlier;
      end if;
    end if;
    if send_by is not null or expiration is not null or run_at > now() or not isfinite(run_at) then
      perform pushq.check_times(run_at, 'run_at', send_by, expiration);
    end if;
    if queue like '%/web.%' then
      -- What is wrong with any message is said first, as it is everywhere else.
      perform pushq.check_draft(door.q, body, push_type, priority, expiration, collapse_id);
      perform pushq.check_website(body, push_type);
    end if;
    if at_most_once then
      perform pushq.warn_of_repetition();
    end if;
  end if;

  -- The usual case in one statement: one token that is known, and whose row does not change. The code below costs more,
  -- most of all in a transaction of its own (docs/performance.md). The statement also checks for sleeping workers,
  -- which is the first step of `pushq.wake`.
  if cardinality(tokens) = 1 and not replace_waiting then
    if pushq.is_usual(body, push_type, priority, expiration, collapse_id) is not true then
      perform pushq.check_draft(door.q, body, push_type, priority, expiration, collapse_id);
    end if;
    with known as materialized (
      select d.id as device_id, pushq.today() as day, coalesce(root, nextval('pushq.id')) as root_id,
             nextval('pushq.id') as message_id, nextval('pushq.id') as job_id
      from pushq.device d
      -- A text that is not plainly a token is read below: an error here would show this whole statement.
      where d.queue_id = door.q and d.token = pushq.plain_token(tokens[1])
        and not (d.kind is not null and d.registered_at is null and pushq.message_kind(push_type, body) = 'alert')),
    new_message as (
      insert into pushq.message (day, queue_id, id, root_id, payload, push_type, priority, expiration, collapse_id,
                                 at_most_once, due_at, traceparent, badge_increment)
      select k.day, door.q, k.message_id, k.root_id, body, push_type,
             pushq.stored_priority(priority, push_type), expiration,
             pushq.collapse_id_of(door.q, push_type, body, collapse_id, k.root_id), at_most_once,
             case when push_type = 'liveactivity' then greatest(run_at, clock_timestamp()) end, traceparent,
             pushq.badge_increment(body, push_type)
      from known k),
    new_body as (
      insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
      select k.day, door.q, k.job_id, k.root_id, k.device_id, k.device_id, array[k.device_id]
      from known k),
    new_job as (
      insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count,
                             at_most_once)
      select door.q, k.job_id, case when urgent then 0 else 1 end, run_at,
             pushq.end_of_send(send_by, run_at), k.message_id, k.root_id, k.day, 1,
             at_most_once
      from known k
      returning root_id)
    select j.root_id,
           exists (select from pushq.sleeper s where pushq.is_asleep(s.since))
    into sent, sleeps
    from new_job j;
    if found then
      if door.has_quota then
        perform pushq.check_quota(door.q, recipients => 1, bytes => octet_length(body::text));
      end if;
      if sleeps then
        perform pushq.wake(door.q);
      end if;
      return sent;
    end if;
  end if;

  q := door.q;
  if tokens is not null then
    parsed := array(select distinct t from unnest(pushq.tokens(tokens)) t);
  end if;
  aim := pushq.message_kind(push_type, body);
  started := pushq.started_type(push_type, body);
  root := coalesce(root, nextval('pushq.id'));
  due_at := greatest(run_at, clock_timestamp());
  if user_keys is not null then
    perform pushq.send_to_users(
      q, root, body, user_keys, push_type, priority, expiration, collapse_id, at_most_once, urgent, run_at, send_by,
      replace_waiting, due_at, traceparent, door.has_quota);
    return root;
  end if;
  message := pushq.new_message(
    q, root, body, push_type, priority, expiration, collapse_id, at_most_once, user_key, replace_waiting, due_at,
    traceparent => traceparent);
  if tokens is not null then
    select (select array_agg(id order by id) from unnest(d.ids) id), d.unknown into ids, fresh
    from pushq.devices_of_tokens(q, parsed, array_fill(aim, array[cardinality(parsed)])) d;
  elsif run_at > now() then
    ids := '{}';
  else
    ids := pushq.devices_of_user(q, user_key, aim, started);
  end if;
  if door.has_quota then
    -- The message of a send without recipients is kept, too.
    perform pushq.check_quota(
      q, recipients => case when ids is null then 0 else greatest(cardinality(ids), 1) end,
      bytes => octet_length(body::text), devices => fresh);
  end if;
  if ids is null then
    insert into pushq.empty_send (queue_id, root_id, why)
    values (q, root, pushq.why_nobody(q, user_key, aim, started));
    return root;
  end if;

  perform pushq.make_jobs(
    q, root, message, ids, case when urgent then 0 else 1 end, run_at,
    pushq.end_of_send(send_by, run_at), at_most_once);
  if replace_waiting then
    perform pushq.supersede(q, ids, message, due_at);
  end if;
  perform pushq.wake(q);
  return root;
end $$;

-- Sends to several users under one root. Each user has a separate message, by which a worker sees whether a device
-- still belongs to the user.
create or replace function pushq.send_to_users(
  q int, root bigint, payload json, user_keys text[], push_type text, priority int, expiration bigint,
  collapse_id text, at_most_once boolean, urgent boolean, run_at timestamptz, send_by timestamptz, replaces boolean,
  due_at timestamptz, traceparent text, has_quota boolean
) returns void
language plpgsql as $$
declare
  aim     text   := pushq.message_kind(push_type, payload);
  started text   := pushq.started_type(push_type, payload);
  until   timestamptz := pushq.end_of_send(send_by, run_at);
  users   int    := 0;                                    -- the number of users who have a device
  total   bigint := 0;
  one     record;
  message bigint;
begin
  perform pushq.check_draft(q, payload, push_type, priority, expiration, collapse_id);
  for one in
    select u.user_key,
           case when run_at > now() then '{}' else pushq.devices_of_user(q, u.user_key, aim, started) end as ids
    from (select distinct user_key from unnest(user_keys) user_key) u
    order by u.user_key
  loop
    continue when one.ids is null;
    message := pushq.new_message(
      q, root, payload, push_type, priority, expiration, collapse_id, at_most_once, one.user_key, replaces, due_at,
      traceparent => traceparent);
    perform pushq.make_jobs(
      q, root, message, one.ids, case when urgent then 0 else 1 end, run_at, until, at_most_once);
    if replaces then
      perform pushq.supersede(q, one.ids, message, due_at);
    end if;
    users := users + 1;
    total := total + greatest(cardinality(one.ids), 1);
  end loop;
  if users = 0 then
    insert into pushq.empty_send (queue_id, root_id, why)
    values (q, root, case when user_keys = '{}' then 'the list of users is empty'
                          else pushq.why_none_of_users(started) end);
    return;
  end if;
  if has_quota then
    perform pushq.check_quota(q, recipients => total, bytes => octet_length(payload::text) * users::bigint);
  end if;
  perform pushq.wake(q);
end $$;
