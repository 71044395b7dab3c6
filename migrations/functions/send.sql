-- Sends one message to some tokens, or to all devices of a user. A device that another user has registered by the
-- time of sending gets nothing. A scheduled send to a user goes to the devices that the user has then. Returns the
-- root of the send, from which each recipient's apns-id derives; if there is no recipient, only that is recorded.
-- With `key`, a repeated call returns the first one's root, and the same key for something else is an error. With
-- `replace_waiting`, an update of a Live Activity replaces those that still wait for the same token.
--
-- `payload` is json, jsonb or text: of a polymorphic type, since a literal would fit several functions equally
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
  traceparent  text        default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door    record := pushq.enter(queue, sends => true);
  q       int := door.q;
  body    json := pushq.payload_json(payload);
  aim     text := pushq.message_kind(push_type, body);
  root    bigint := nextval('pushq.id');
  due_at  timestamptz;
  earlier bigint;
  message bigint;
  parsed  bytea[];
  ids     bigint[];
  fresh   bigint := 0;
begin
  run_at := coalesce(run_at, now());
  due_at := greatest(run_at, clock_timestamp());
  if (tokens is null) = (user_key is null) then
    raise exception using errcode = 'PQ400', message = 'a send needs either tokens or a user_key';
  elsif replace_waiting and (push_type <> 'liveactivity' or body #>> '{aps,event}' = 'start') then
    raise exception using errcode = 'PQ400', message = 'replace_waiting is for updates and ends of Live Activities',
      hint = 'other pushes replace each other on the device, by their collapse ID';
  end if;

  if traceparent is not null then
    perform pushq.check_traceparent(traceparent);
  end if;
  if key is not null then
    -- Times are not compared: a repeated call may count them anew, or come when they have passed. Nor is the
    -- traceparent, since the repetition is an operation of its own.
    earlier := pushq.earlier_send(q, key, root, sha256(convert_to(
      row(pushq.content(body), tokens, user_key, push_type, priority, collapse_id, at_most_once, urgent,
          replace_waiting)::text,
      'UTF8')), due_at);
    if earlier is not null then
      return earlier;
    end if;
  end if;
  perform pushq.check_times(run_at, 'run_at', send_by, expiration);

  message := pushq.new_message(
    q, root, body, push_type, priority, expiration, collapse_id, at_most_once, user_key, replace_waiting, due_at,
    traceparent => traceparent);
  if tokens is not null then
    -- The usual case is one known token that is not to be changed. It takes a third of the time of what is below.
    if cardinality(tokens) = 1 then
      parsed := array[pushq.token(tokens[1])];
      select array[id] into ids
      from pushq.device d
      where d.queue_id = q and d.token = parsed[1]
        and not (aim = 'alert' and d.kind is not null and d.registered_at is null);
    else
      select array_agg(distinct pushq.token(t)) into parsed from unnest(tokens) t;
    end if;
    if ids is null then
      select (select array_agg(id order by id) from unnest(d.ids) id), d.unknown into ids, fresh
      from pushq.devices_of_tokens(q, parsed, array_fill(aim, array[coalesce(cardinality(parsed), 0)])) d;
    end if;
  elsif run_at > now() then
    ids := '{}';
  else
    ids := pushq.devices_of_user(q, user_key, aim);
  end if;
  if ids is null then
    insert into pushq.empty_send (queue_id, root_id, why) values (q, root, pushq.why_nobody(q, user_key));
    return root;
  end if;
  if door.has_quota then
    perform pushq.check_quota(
      q, recipients => greatest(cardinality(ids), 1), bytes => octet_length(body::text), devices => fresh);
  end if;

  perform pushq.make_jobs(
    q, root, message, ids, (case when urgent then 0 else 1 end)::smallint, run_at,
    coalesce(send_by, greatest(run_at, now()) + interval '24 hours'), at_most_once);
  if replace_waiting then
    perform pushq.supersede(q, ids, message, due_at);
  end if;
  perform pushq.wake(q);
  return root;
end $$;
