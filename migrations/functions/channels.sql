-- Registers a channel that was created at Apple, or reactivates one that was retired here. Returns its id. A queue may
-- have 10,000 channels, which is Apple's limit; retired ones do not count.
create or replace function pushq.register_channel(queue text, channel text, policy int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q      int := (pushq.enter(queue, sends => false)).q;
  new_id bigint;
begin
  if channel is null or channel !~ '^[A-Za-z0-9+/=_-]{1,200}$' then
    raise exception using errcode = 'PQ400', message = 'the channel ID is not one that Apple gave',
      hint = 'it is 1 to 200 characters of base64';
  elsif policy is null or policy not in (0, 1) then
    raise exception using errcode = 'PQ400', message = format('policy %s is unknown', coalesce(policy::text, 'null')),
      hint = '0: APNs stores nothing; 1: the latest message';
  end if;
  insert into pushq.channel as c (queue_id, channel, policy) values (q, $2, $3)
  on conflict on constraint channel_once do update
    set policy = excluded.policy, retired_at = null, retired_reason = null
  returning id into new_id;
  if (select count(*) from pushq.channel c where c.queue_id = q and c.retired_at is null) > 10000 then
    raise exception using errcode = 'PQ507',
      message = format('queue “%s” has 10000 channels, the most there may be', queue),
      hint = 'delete those that are not needed: pushq-admin channel delete';
  end if;
  return new_id;
end $$;

-- Sends an update or the end of a Live Activity to all devices that follow a channel. Returns the root, from which its
-- apns-request-id derives. `payload` is json, jsonb or text. With `replace_waiting` it replaces older updates that
-- still wait for the channel. With `key`, a repeated call returns the root of the first call, and the same key with
-- other content is an error.
create or replace function pushq.broadcast(
  queue           text,
  channel         text,
  payload         anycompatible,
  expiration      bigint,
  priority        int         default 10,
  replace_waiting boolean     default true,
  urgent          boolean     default false,
  send_by         timestamptz default null,
  key             text        default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door    record := pushq.enter(queue, sends => true);
  q       int := door.q;
  body    json := pushq.payload_json(payload);
  root    bigint := nextval('pushq.id');
  c       pushq.channel;
  earlier bigint;
  problem text;
  message bigint;
  due_at  timestamptz := clock_timestamp();
begin
  -- Null means the default, so that a repeated call has the same content.
  replace_waiting := coalesce(replace_waiting, true);
  urgent := coalesce(urgent, false);
  if key is not null then
    earlier := pushq.earlier_send(q, key, root,
      sha256(convert_to(row(pushq.content(body), channel, priority, replace_waiting, urgent)::text, 'UTF8')), now());
    if earlier is not null then
      return earlier;
    end if;
  end if;
  perform pushq.check_times(now(), 'now', send_by);

  select * into c from pushq.channel k where k.queue_id = q and k.channel = broadcast.channel;
  if not found then
    raise exception using errcode = 'PQ404',
      message = format('there is no channel “%s” in queue “%s”', pushq.shown(channel, 200), queue),
      hint = 'create it or make it known with pushq.register_channel; an operator can list them with: '
             'pushq-admin channel list QUEUE';
  elsif c.retired_at is not null then
    raise exception using errcode = 'PQ409', message = format('channel “%s” was retired at %s', channel, c.retired_at),
      hint = 'create another one with: pushq-admin channel create QUEUE';
  end if;
  problem := coalesce(
    pushq.broadcast_problem(body, priority, expiration, c.policy), pushq.gateway_broadcast_problem(q));
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
  if door.has_quota then
    perform pushq.check_quota(q, recipients => 1, bytes => octet_length(body::text));
  end if;
  insert into pushq.message (queue_id, root_id, payload, push_type, priority, expiration, is_broadcast, replaces,
                             due_at)
  values (q, root, body, 'liveactivity', priority, expiration, true, replace_waiting, due_at)
  returning id into message;
  perform pushq.make_jobs(
    q, root, message, array[c.id], case when urgent then 0 else 1 end, greatest(now(), c.throttled_until),
    pushq.end_of_send(broadcast.send_by, c.throttled_until), false);
  if replace_waiting then
    perform pushq.supersede(q, array[c.id], message, due_at);
  end if;
  perform pushq.wake(q);
  return root;
end $$;
