-- Channels and what is broadcast to them. A broadcast is a job with one recipient, which is a channel instead of a device: it
-- shares lease, retry and result, and its id in `body.device_ids` is the channel's.

create table pushq.channel (
  queue_id        int         not null,
  id              bigint      not null default nextval('pushq.id'),
  channel         text        not null,                   -- as Apple gave it; sent byte for byte
  policy          smallint    not null,                   -- 0: APNs stores nothing; 1: the latest message
  created_at      timestamptz not null default now(),
  throttled_until timestamptz,                            -- APNs asked for a pause: nothing new is due before
  retired_at      timestamptz,                            -- set: nothing is sent to it any more
  retired_reason  smallint,                               -- the code of a reason; null: deleted by hand
  constraint channel_pkey primary key (queue_id, id),
  constraint channel_once unique (queue_id, channel),
  constraint channel_form check (channel ~ '^[A-Za-z0-9+/=_-]{1,200}$'),
  constraint channel_policy_known check (policy in (0, 1)),
  constraint channel_reason_if_retired check (retired_at is not null or retired_reason is null)
);

-- Says that the job's recipient is a channel.
alter table pushq.message add column is_broadcast boolean not null default false;

-- Updates of Live Activities that take the place of older ones, by channel or device: from when one is due, whoever claims an update
-- that was due before it suppresses that. Nothing is looked for when an update is queued, and whatever way an older one comes back
-- from, a retry or a rescue, it meets this row. One that is scheduled waits here beside those that are due. A table of its own, of
-- which nobody waits for a row: workers only read it.
create table pushq.newest_update (
  queue_id     int         not null,
  recipient_id bigint      not null,                      -- of a channel or device
  due_at       timestamptz not null,
  message_id   bigint      not null,
  constraint newest_update_pkey primary key (queue_id, recipient_id, due_at, message_id)
);

-- Upkeep forgets rows once nothing older can wait any more.
create index newest_update_age on pushq.newest_update (due_at);

-- Lets a message take the place of those that are due before it for the same recipients, as soon as it is due itself. Rows that say
-- less than this one go, but for those that somebody is writing.
create function pushq.supersede(q int, recipients bigint[], message bigint, due_at timestamptz) returns void
language plpgsql as $$
begin
  insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
  select q, r, supersede.due_at, message from unnest(recipients) r;
  if due_at <= clock_timestamp() then
    delete from pushq.newest_update n
    where n.ctid = any (array(
      select o.ctid
      from pushq.newest_update o
      where o.queue_id = q and o.recipient_id = any (recipients) and (o.due_at, o.message_id) < (supersede.due_at, message)
      for update skip locked));
  end if;
end $$;

-- Makes a channel known that was created with Apple, or brings one back that was retired here. Returns its id.
create function pushq.register_channel(queue text, channel text, policy int) returns bigint
language plpgsql as $$
declare
  q      int := pushq.queue_id(queue);
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
  on conflict on constraint channel_once do update set policy = excluded.policy, retired_at = null, retired_reason = null
  returning id into new_id;
  return new_id;
end $$;

-- What is wrong with a broadcast, in one line with what to do about it, or null. `policy` is the channel's.
create function pushq.broadcast_problem(payload json, priority int, expiration bigint, policy int) returns text
language plpgsql stable as $$
declare
  problem text := pushq.payload_problem(payload, 'liveactivity', true);
begin
  if problem is not null then
    return problem;
  elsif priority is null or priority not in (10, 5, 1) then
    return format('priority %s is unknown: use 10, 5 or 1', coalesce(priority::text, 'null'));
  elsif expiration is null then
    return 'the expiration is missing, which a broadcast requires: use 0 for a channel that stores nothing, '
           'else seconds since 1970 that lie ahead';
  elsif expiration >= 100000000000 then
    return format('expiration %s is in milliseconds: use seconds since 1970', expiration);
  elsif policy = 0 and expiration <> 0 then
    return format('expiration %s does not go with a channel that stores nothing: use 0', expiration);
  elsif policy = 1 and expiration = 0 then
    return 'expiration 0 does not go with a channel that stores the latest message: use seconds since 1970 that lie ahead';
  elsif policy = 1 and expiration < extract(epoch from now()) then
    return format('expiration %s has passed: use seconds since 1970 that lie ahead', expiration);
  end if;
  return null;
end $$;

-- Sends an update or the end of a Live Activity to everybody who follows a channel. Returns the root, from which its
-- apns-request-id derives. `payload` is json, jsonb or text. With `replace_waiting` it takes the place of older ones that still wait for the channel. With `key`, a repeated
-- call returns the first one's root, and the same key for something else is an error.
create function pushq.broadcast(
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
language plpgsql as $$
declare
  q       int := pushq.queue_id(queue);
  body    json := payload::text::json;
  root    bigint := nextval('pushq.id');
  job     bigint := nextval('pushq.id');
  c       pushq.channel;
  earlier bigint;
  problem text;
  message bigint;
  due_at  timestamptz := clock_timestamp();
begin
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
    raise exception using errcode = 'PQ404', message = format('there is no channel “%s” in queue “%s”', left(channel, 200), queue),
      hint = 'list them with: pushq-admin channel list QUEUE';
  elsif c.retired_at is not null then
    raise exception using errcode = 'PQ409', message = format('channel “%s” was retired at %s', channel, c.retired_at),
      hint = 'create another one with: pushq-admin channel create QUEUE';
  end if;
  problem := pushq.broadcast_problem(body, priority, expiration, c.policy);
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
  insert into pushq.message (queue_id, root_id, payload, push_type, priority, expiration, is_broadcast, replaces, due_at)
  values (q, root, body, 'liveactivity', priority, expiration, true, replace_waiting, due_at)
  returning id into message;
  insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
  values (pushq.today(), q, job, root, c.id, c.id, array[c.id]);
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
  values (q, job, case when urgent then 0 else 1 end, greatest(now(), c.throttled_until),
          coalesce(broadcast.send_by, now() + interval '24 hours'), message, root, pushq.today(), 1);
  if replace_waiting then
    perform pushq.supersede(q, array[c.id], message, due_at);
  end if;
  perform pushq.wake(q);
  return root;
end $$;
