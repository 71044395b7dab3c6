-- Sends many messages in one call, for a fraction of the cost of as many calls of `pushq.send`: element n of `payloads`
-- goes to element n of `tokens`, or to all devices of element n of `user_keys`. Returns their roots in this order. The
-- other arguments are those of `pushq.send`; `collapse_ids` and `keys` have an element for each message, too, or are
-- null.
--
-- It is all or nothing: an error names the element, and nothing is sent.
--
-- Each step is one statement for all messages, with a plan for any queue and any tokens, for the reason that
-- `pushq.add_members` gives. Rows that other calls write, too, are written in the order of their keys, so that no calls
-- wait for each other in a circle.
create or replace function pushq.send_many(
  queue        text,
  payloads     anycompatiblearray,
  tokens       text[]      default null,
  user_keys    text[]      default null,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_ids text[]      default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  run_at       timestamptz default now(),
  send_by      timestamptz default null,
  replace_waiting boolean  default false,
  keys         text[]      default null,
  traceparent  text        default null
) returns bigint[]
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  door     record := pushq.enter(queue, sends => true);
  q        int    := door.q;
  bodies   json[];
  bytes    bytea[];
  roots    bigint[];  -- of all messages; the variables below are for messages that repeat no earlier send
  due_at   timestamptz;
  fresh    bigint[];
  places   int[];                                         -- their numbers among all messages; null: all messages
  messages bigint[];
  aims     text[];
  types    text[];                                        -- of Live Activities that are started
  devices  bigint[];
  unknown  bigint := 0;
  total    bigint := 0;                                   -- the number of recipients
  one      record;
  lane     int;
begin
  at_most_once := coalesce(at_most_once, false);
  urgent := coalesce(urgent, false);
  replace_waiting := coalesce(replace_waiting, false);
  perform pushq.check_traceparent(traceparent);
  perform pushq.check_lengths(cardinality(payloads), tokens, user_keys, collapse_ids, keys);
  run_at := coalesce(run_at, now());
  due_at := greatest(run_at, clock_timestamp());
  bodies := pushq.payloads_json(payloads);
  bytes := pushq.tokens(tokens, 'message');

  roots := array(select nextval('pushq.id') from generate_series(1, cardinality(bodies)));
  fresh := roots;
  if keys is not null then
    roots := pushq.earlier_sends(
      q, keys, roots, due_at,
      array(
        select case when u.key is not null then sha256(convert_to(
                 row(pushq.content(u.body), case when u.bytes is not null then array[encode(u.bytes, 'hex')] end,
                     u.user_key, push_type, priority, u.collapse_id, at_most_once, urgent, replace_waiting)::text,
                 'UTF8')) end
        from unnest(keys, bodies, bytes, user_keys, collapse_ids) with ordinality
          as u(key, body, bytes, user_key, collapse_id, n)
        order by u.n));
    select array_agg(u.root order by u.n), array_agg(u.body order by u.n), array_agg(u.bytes order by u.n),
           array_agg(u.user_key order by u.n), array_agg(u.collapse_id order by u.n), array_agg(u.n order by u.n)
    into fresh, bodies, bytes, user_keys, collapse_ids, places
    from unnest(fresh, roots, bodies, bytes, user_keys, collapse_ids) with ordinality
      as u(proposed, root, body, bytes, user_key, collapse_id, n)
    where u.root = u.proposed;
  end if;
  if coalesce(cardinality(fresh), 0) = 0 then
    return roots;
  end if;
  -- A message that repeats an earlier send is not checked again, because its expiration may have passed.
  perform pushq.check_messages(q, bodies, push_type, priority, expiration, collapse_ids, replace_waiting, places);
  if at_most_once then
    perform pushq.warn_of_repetition();
  end if;
  perform pushq.check_times(run_at, 'run_at', send_by, expiration);
  send_by := pushq.end_of_send(send_by, run_at);
  lane := case when urgent then 0 else 1 end;

  if tokens is not null then
    select d.ids, d.unknown into devices, unknown from pushq.devices_of_messages(q, bytes, bodies, push_type) d;
    total := cardinality(fresh);
    messages := pushq.make_sends(
      q, fresh, bodies, devices, collapse_ids, push_type, priority, expiration, lane, run_at, send_by, at_most_once,
      replace_waiting, due_at, traceparent);
    if replace_waiting then
      perform pushq.supersede(q, array[u.device], u.message, due_at) from unnest(devices, messages) u(device, message);
    end if;
  else
    select array_agg(nextval('pushq.id') order by u.n), array_agg(pushq.message_kind(push_type, u.body) order by u.n),
           array_agg(pushq.started_type(push_type, u.body) order by u.n)
    into messages, aims, types
    from unnest(bodies) with ordinality u(body, n);
    insert into pushq.message (queue_id, id, root_id, payload, push_type, priority, expiration, collapse_id, user_key,
                               at_most_once, replaces, due_at, traceparent, badge_increment)
    select q, u.message, u.root, u.body, push_type,
           pushq.stored_priority(priority, push_type), expiration,
           pushq.collapse_id_of(q, push_type, u.body, u.collapse_id, u.root), u.user_key, at_most_once, replace_waiting,
           case when push_type = 'liveactivity' then due_at end, traceparent,
           pushq.badge_increment(u.body, push_type)
    from unnest(messages, fresh, bodies, collapse_ids, user_keys) as u(message, root, body, collapse_id, user_key);
    for one in
      select u.root, u.message, u.user_key, u.aim, u.started,
             case when run_at > now() then '{}' else pushq.devices_of_user(q, u.user_key, u.aim, u.started) end as ids
      from unnest(fresh, messages, user_keys, aims, types) u(root, message, user_key, aim, started)
    loop
      if one.ids is null then
        insert into pushq.empty_send (queue_id, root_id, why)
        values (q, one.root, pushq.why_nobody(q, one.user_key, one.aim, one.started));
        continue;
      end if;
      total := total + greatest(cardinality(one.ids), 1);
      perform pushq.make_jobs(q, one.root, one.message, one.ids, lane, run_at, send_by, at_most_once);
      if replace_waiting then
        perform pushq.supersede(q, one.ids, one.message, due_at);
      end if;
    end loop;
  end if;
  if door.has_quota then
    perform pushq.check_quota(
      q, recipients => total, devices => unknown,
      bytes => (select sum(octet_length(b::text)) from unnest(bodies) b));
  end if;
  perform pushq.wake(q);
  return roots;
end $$;

-- Refuses arrays of different lengths, or too long ones: with a million messages the caller would learn nothing for
-- minutes, and an error in the last one would roll back all of them.
create or replace function pushq.check_lengths(
  count int, tokens text[], user_keys text[], collapse_ids text[], keys text[]
) returns void
language plpgsql immutable as $$
declare
  of_other record;
  problem  text;
begin
  if (tokens is null) = (user_keys is null) then
    raise exception using errcode = 'PQ400', message = 'sends need either tokens or user_keys';
  elsif count is null then
    raise exception using errcode = 'PQ400', message = 'payloads is null',
      hint = 'for no messages, give an empty array';
  elsif count > 10000 then
    raise exception using errcode = 'PQ400', message = format('one call takes at most 10000 messages, not %s', count),
      hint = 'make several calls; they may be in one transaction';
  end if;
  select * into of_other
  from (
    values ('tokens', tokens), ('user_keys', user_keys), ('collapse_ids', collapse_ids), ('keys', keys)) a(name, list)
  where coalesce(cardinality(a.list), count) <> count
  limit 1;
  if found then
    raise exception using errcode = 'PQ400',
      message = format('payloads and %s have different lengths: %s and %s', of_other.name, count,
                       cardinality(of_other.list)),
      hint = 'give both the same length: element n of each is for message n';
  end if;
  select u.n into of_other from unnest(user_keys) with ordinality u(key, n) where u.key is null order by u.n limit 1;
  if found then
    raise exception using errcode = 'PQ400', message = format('message %s: its user_key is null', of_other.n);
  end if;
  select format('message %s: %s', u.n, pushq.user_key_problem(u.key)) into problem
  from unnest(user_keys) with ordinality u(key, n)
  where pushq.user_key_problem(u.key) is not null
  order by u.n
  limit 1;
  if found then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
end $$;

-- The payloads, given as json, jsonb or text, in the form of `pushq.payload_json`.
create or replace function pushq.payloads_json(payloads anycompatiblearray) returns json[]
language plpgsql immutable as $$
declare
  texts  text[];
  bodies json[];
  reason text;
  lack   text;
begin
  if pg_typeof(payloads) <> all ('{json[],jsonb[],text[],varchar[],bpchar[]}'::regtype[]) then
    raise exception using errcode = 'PQ400',
      message = format('the payloads are of type %s: use json[], jsonb[] or text[]', pg_typeof(payloads));
  end if;
  texts := payloads::text[];
  if pg_column_size(texts) > 1000000 then
    select format('message %s: %s', u.n, pushq.length_problem(u.t)) into reason
    from unnest(texts) with ordinality u(t, n)
    where pushq.length_problem(u.t) is not null
    order by u.n
    limit 1;
    if found then
      raise exception using errcode = 'PQ400', message = reason;
    end if;
  end if;
  bodies := texts::json[];
  -- The same refusal as in `pushq.check_escapes`.
  select format(E'message %s: the payload has a \\u escape that is not a character: write the character itself', u.n)
  into reason
  from unnest(texts) with ordinality u(t, n)
  where strpos(u.t, E'\\u') > 0 and not pushq.has_readable_escapes(u.t)
  order by u.n
  limit 1;
  if found then
    raise exception using errcode = 'PQ400', message = reason;
  end if;
  return bodies;
exception when invalid_text_representation or statement_too_complex then
  -- Finds the number of the bad payload, whatever the array's subscripts.
  texts := array(select t from unnest(texts) t);
  for n in 1 .. cardinality(texts) loop
    begin
      perform texts[n]::json;
    exception
      when statement_too_complex then
        raise exception using errcode = 'PQ400',
          message = format('message %s: the payload nests deeper than 64 levels: flatten it', n);
      when invalid_text_representation then
        get stacked diagnostics reason = message_text, lack = pg_exception_detail;
        raise exception using errcode = '22P02', message = format('message %s: %s', n, reason),
          detail = left(lack, 200);
    end;
  end loop;
  raise;
end $$;

-- Refuses the first message with a problem, as `pushq.new_message` does. Equal messages are checked once, and for a
-- usual one it is only checked that it is usual. `places` are the messages' numbers; null: from 1.
create or replace function pushq.check_messages(
  q int, bodies json[], push_type text, priority int, expiration bigint, collapse_ids text[], replaces boolean,
  places int[]
) returns void
language plpgsql stable as $$
declare
  for_passes boolean := pushq.bundle_begins(q, 'pass.');
  for_web    boolean := pushq.bundle_begins(q, 'web.');
  of_topic   text    := pushq.topic_problem(q, push_type);
  wrong      record;
begin
  select g.n, p.problem into wrong
  from (
    select u.body::json as body, u.collapse_id, min(u.n) as n
    from unnest(bodies::text[], collapse_ids) with ordinality u(body, collapse_id, n)
    group by u.body, u.collapse_id
    -- Without `offset`, each message would be checked before they are grouped.
    offset 0) g
  cross join lateral (
    select case
      when replaces or for_web or pushq.is_usual(g.body, push_type, priority, expiration, g.collapse_id) is not true
      then coalesce(
        pushq.message_problem(g.body, push_type, priority, expiration, g.collapse_id, for_passes), of_topic,
        pushq.gateway_problem(q, g.body, push_type, priority, g.collapse_id),
        pushq.activity_problem(q, push_type, g.body),
        case when for_web then pushq.website_problem(g.body, push_type) end,
        case when replaces and (push_type <> 'liveactivity' or g.body #>> '{aps,event}' = 'start')
             then 'replace_waiting is for updates and ends of Live Activities' end) end as problem) p
  where p.problem is not null
  order by g.n
  limit 1;
  if found then
    raise exception using errcode = 'PQ400',
      message = format('message %s: %s', coalesce(places[wrong.n], wrong.n), wrong.problem);
  end if;
end $$;

-- The devices of the messages' tokens, in their order, and the number of unknown ones. Nearly always all tokens are
-- known, and no row changes.
create or replace function pushq.devices_of_messages(
  q int, tokens bytea[], bodies json[], push_type text, out ids bigint[], out unknown bigint
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  is_known boolean;
begin
  select array_agg(d.id order by u.n), 0,
         bool_and(d.id is not null and not (d.is_guess and pushq.message_kind(push_type, u.body) = 'alert'))
  into ids, unknown, is_known
  from unnest(tokens, bodies) with ordinality u(token, body, n)
  left join lateral (
    select d.id, d.kind is not null and d.registered_at is null as is_guess
    from pushq.device d
    where d.queue_id = q and d.token = u.token
    limit 1) d on true;
  if is_known is not true then
    select d.ids, d.unknown into ids, unknown
    from pushq.devices_of_tokens(
      q, tokens,
      array(
        select pushq.message_kind(push_type, u.body) from unnest(bodies) with ordinality u(body, n) order by u.n)) d;
  end if;
end $$;

-- The devices of these tokens, in their order, and the number of unknown ones. Each unknown token becomes a device of
-- the kind that its message needs. Sending never reactivates an inactive device.
create or replace function pushq.devices_of_tokens(
  q int, tokens bytea[], aims text[], out ids bigint[], out unknown bigint
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  added   bigint;
  guessed bigint[];                                       -- devices whose kind an earlier push has only suggested
begin
  unknown := 0;
  -- Tries again if a device is deleted between the statements, for example while this one waits for a transaction that
  -- adds another one.
  for attempt in 1..10 loop
    -- Each look-up is a query of its own: for a queue that is not in the statistics, PostgreSQL would expect one
    -- device, and read all of them instead of using the whole key.
    insert into pushq.device (queue_id, token, kind)
    select q, s.token, s.kind
    from (
      select distinct on (u.token) u.token, nullif(u.aim, 'alert') as kind
      from unnest(tokens, aims) with ordinality u(token, aim, n)
      order by u.token, u.n) s
    where (select d.id from pushq.device d where d.queue_id = q and d.token = s.token) is null
    on conflict do nothing;
    get diagnostics added = row_count;
    unknown := unknown + added;
    -- One device for each place: a message must never move to the device of the next one.
    select array_agg(d.id order by u.n),
           array_agg(d.id) filter (where u.aim = 'alert' and d.kind is not null and d.registered_at is null)
    into ids, guessed
    from unnest(tokens, aims) with ordinality u(token, aim, n)
    left join lateral (
      select d.id, d.kind, d.registered_at
      from pushq.device d
      where d.queue_id = q and d.token = u.token
      limit 1) d on true;
    exit when array_position(ids, null) is null;
  end loop;
  if array_position(ids, null) is not null then
    raise exception using errcode = 'serialization_failure',
      message = 'devices of this call are forgotten at the same time', hint = 'repeat the transaction';
  end if;
  -- These are the app's own tokens after all, unless the app has registered another kind.
  if guessed is not null then
    update pushq.device d
    set kind = null
    where d.queue_id = q and d.id = any (guessed) and d.kind is not null and d.registered_at is null;
  end if;
end $$;
