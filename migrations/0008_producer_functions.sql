-- What producers call, in their own transaction and from any language, instead of writing to tables.

-- Idempotency keys of sends. A plain table, never an index on a hot one; upkeep deletes old keys in batches.
create table pushq.send_key (
  queue_id   int         not null,
  key        text        not null,
  root_id    bigint      not null,
  digest     bytea       not null,
  created_at timestamptz not null default now(),
  constraint send_key_pkey primary key (queue_id, key),
  constraint send_key_length check (octet_length(key) between 1 and 200)
);

create index send_key_age on pushq.send_key (created_at);

-- Sends that reached nobody, and why: without a recipient there is no job that would tell. A producer's transaction must not fail for
-- it, since whether a user has a device is nothing that its order depends on. Upkeep deletes old rows in batches.
create table pushq.empty_send (
  queue_id   int         not null,
  root_id    bigint      not null,
  why        text        not null,
  created_at timestamptz not null default now(),
  constraint empty_send_pkey primary key (queue_id, root_id)
);

create index empty_send_age on pushq.empty_send (created_at);

-- What was cancelled: whoever holds or claims a job that a row names, or whose root one names, ends it. So a recipient that is sent to
-- again in another job is stopped, too. A table of its own: producers hold its rows locked until they commit, and workers only
-- read it. Upkeep deletes old rows in batches.
create table pushq.cancelled (
  queue_id     int         not null,
  id           bigint      not null,                      -- of a send, a broadcast or a job
  cancelled_at timestamptz not null default now(),
  constraint cancelled_pkey primary key (queue_id, id)
);

create index cancelled_age on pushq.cancelled (cancelled_at);

-- Refuses a key that cannot be kept.
create function pushq.check_key(key text) returns void
language plpgsql immutable as $$
begin
  if key = '' then
    raise exception using errcode = 'PQ400', message = 'the key is empty', hint = 'give it 1 to 200 bytes, or leave it out';
  elsif octet_length(key) > 200 then
    raise exception using errcode = 'PQ400', message = format('the key has %s bytes', octet_length(key)),
      hint = 'at most 200 bytes are taken';
  end if;
end $$;

-- Refuses a time until which nothing could be sent. `start` is called `start_name` in the call.
create function pushq.check_times(start timestamptz, start_name text, send_by timestamptz) returns void
language plpgsql stable as $$
begin
  if not isfinite(start) or not isfinite(send_by) then
    raise exception using errcode = 'PQ400', message = format('%s or send_by is infinite', start_name),
      hint = 'give a time that will come';
  elsif send_by <= now() then
    raise exception using errcode = 'PQ400', message = format('send_by %s has passed', send_by);
  elsif send_by <= start then
    raise exception using errcode = 'PQ400',
      message = format('send_by %s is not after %s %s: nothing could be sent', send_by, start_name, start);
  end if;
end $$;

-- A payload as a key stands for it: the same however its JSON was written. An escape or an exponent may be more than jsonb can hold; such a
-- payload is taken as it was written.
create function pushq.content(payload json) returns text
language plpgsql immutable as $$
begin
  return case when payload::text ~ '\\u|[0-9][eE]' then payload::text else payload::jsonb::text end;
end $$;

-- The root of the send that was made under this key before, or null for the first one, which is noted. `digest` is of what was asked
-- for: the same key for something else is an error.
create function pushq.earlier_send(queue_id int, key text, root bigint, digest bytea) returns bigint
language plpgsql as $$
declare
  known pushq.send_key;
begin
  perform pushq.check_key(key);
  insert into pushq.send_key (queue_id, key, root_id, digest) values ($1, $2, $3, $4) on conflict do nothing;
  if found then
    return null;
  end if;
  select * into known from pushq.send_key k where k.queue_id = $1 and k.key = $2;
  if known.digest <> $4 then
    raise exception using errcode = 'PQ409', message = format('key “%s” was used for another send', key),
      hint = 'use a new key for what is not a repetition';
  end if;
  return known.root_id;
end $$;

-- Checks a message (0009_message_rules.sql, 0012_binary_interface.sql) and keeps it. Returns its id.
create function pushq.new_message(
  queue_id int, root_id bigint, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, user_key text default null
) returns bigint
language plpgsql as $$
declare
  problem text := pushq.message_problem(payload, push_type, priority, expiration, collapse_id);
  new_id  bigint;
begin
  -- Only what looks wrong is worth asking whether it is right for a Wallet pass.
  if problem is not null and pushq.is_for_wallet_passes(queue_id) then
    problem := pushq.message_problem(payload, push_type, priority, expiration, collapse_id, for_wallet_pass => true);
  end if;
  problem := coalesce(
    problem, pushq.topic_problem(queue_id, push_type),
    pushq.gateway_problem(queue_id, payload, push_type, priority, collapse_id));
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
  insert into pushq.message (queue_id, root_id, payload, push_type, priority, expiration, collapse_id, user_key, at_most_once)
  values ($1, $2, $3, $4, coalesce($5, case when $4 = 'background' then 5 end), $6, $7, $9, $8)
  returning id into new_id;
  return new_id;
end $$;

-- The recipients of one job of this queue: what its rate sends in two seconds, so that a slow queue does not hold tokens for
-- minutes.
create function pushq.job_size(queue_id int) returns int
language plpgsql stable as $$
begin
  return coalesce((select least(500, greatest(1, (rate * 2)::int)) from pushq.pace p where p.queue_id = $1), 500);
end $$;

-- Why a send to a user, or to a list of tokens if `user_key` is null, has no recipient.
create function pushq.why_nobody(q int, user_key text) returns text
language plpgsql stable as $$
begin
  return case
    when user_key is null then 'the list of tokens is empty'
    when exists (select from pushq.device d where d.queue_id = q and d.user_key = why_nobody.user_key)
      then format('no device of user “%s” is active in this queue', user_key)
    else format('user “%s” has no device in this queue', user_key) end;
end $$;

-- Sends one message to some tokens, or to all devices of a user; a device that another user has registered by the time it is sent
-- gets nothing. Returns the root of the send, from which each recipient's apns-id derives; if there is no recipient, that is noted, and
-- nothing else is done. With `key`, a repeated call returns the first one's root, and the same key for something else is an error.
-- With `replace_waiting`, an update of a Live Activity takes the place of those that still wait for the same token.
--
-- `payload` is json, jsonb or text: of a polymorphic type, since a literal would fit several functions equally well.
create function pushq.send(
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
  key          text        default null
) returns bigint
language plpgsql as $$
declare
  q       int := pushq.queue_id(queue);
  body    json := payload::text::json;
  root    bigint := nextval('pushq.id');
  per_job int := pushq.job_size(q);
  earlier bigint;
  message bigint;
  parsed  bytea[];
  ids     bigint[];
begin
  if (tokens is null) = (user_key is null) then
    raise exception using errcode = 'PQ400', message = 'a send needs either tokens or a user_key';
  elsif replace_waiting and (push_type <> 'liveactivity' or body #>> '{aps,event}' = 'start') then
    raise exception using errcode = 'PQ400', message = 'replace_waiting is for updates and ends of Live Activities',
      hint = 'other pushes replace each other on the device, by their collapse ID';
  end if;

  if key is not null then
    -- Times are no part of what was asked for: a repetition counts them from its own now, or comes when they have passed.
    earlier := pushq.earlier_send(q, key, root, sha256(convert_to(
      row(pushq.content(body), tokens, user_key, push_type, priority, collapse_id, at_most_once, urgent, replace_waiting)::text,
      'UTF8')));
    if earlier is not null then
      return earlier;
    end if;
  end if;
  run_at := coalesce(run_at, now());
  perform pushq.check_times(run_at, 'run_at', send_by);

  message := pushq.new_message(q, root, body, push_type, priority, expiration, collapse_id, at_most_once, user_key);
  if tokens is not null then
    -- A token sent to is a device. Sending never brings an inactive one back.
    select array_agg(distinct pushq.token(t)) into parsed from unnest(tokens) t;
    insert into pushq.device (queue_id, token) select q, t from unnest(parsed) t on conflict do nothing;
    select array_agg(id order by id) into ids from pushq.device d where d.queue_id = q and d.token = any (parsed);
  else
    select array_agg(id order by id) into ids
    from pushq.device d where d.queue_id = q and d.user_key = send.user_key and d.active;
  end if;
  if ids is null then
    insert into pushq.empty_send (queue_id, root_id, why) values (q, root, pushq.why_nobody(q, user_key));
    return root;
  end if;

  with cut as materialized (
    select nextval('pushq.id') as job_id, ids[first : first + per_job - 1] as part
    from generate_series(1, cardinality(ids), per_job) first),
  bodies as (
    insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
    select pushq.today(), q, job_id, root, part[1], part[cardinality(part)], part from cut)
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count, at_most_once)
  select q, job_id, case when urgent then 0 else 1 end, send.run_at,
         coalesce(send.send_by, greatest(send.run_at, now()) + interval '24 hours'),
         message, root, pushq.today(), cardinality(part), send.at_most_once
  from cut;
  if replace_waiting then
    perform pushq.supersede(q, ids, message);
  end if;
  perform pushq.wake(q);
  return root;
end $$;

-- The campaign that was started under this key before, or null. `digest` is of what was asked for: the same key for something else is
-- an error.
create function pushq.earlier_campaign(q int, key text, digest bytea) returns bigint
language plpgsql as $$
declare
  known pushq.campaign;
begin
  select * into known from pushq.campaign c where c.queue_id = q and c.key = $2;
  if known.digest <> $3 then
    raise exception using errcode = 'PQ409', message = format('key “%s” was used for another campaign', key),
      hint = 'use a new key for what is not a repetition';
  end if;
  return known.id;
end $$;

-- Makes a campaign's rows, or finds the campaign of that key. `list_id` is null for all active devices.
create function pushq.new_campaign(
  q int, key text, digest bytea, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, start_at timestamptz, send_by timestamptz, list_id bigint
) returns bigint
language plpgsql as $$
declare
  root    bigint := nextval('pushq.id');
  earlier bigint;
  message bigint;
begin
  if key is null then
    raise exception using errcode = 'PQ400', message = 'a campaign needs a key', hint = 'its key is what it is called, such as spring-sale';
  end if;
  perform pushq.check_key(key);
  earlier := pushq.earlier_campaign(q, key, digest);
  if earlier is not null then
    return earlier;
  end if;
  start_at := coalesce(start_at, now());
  perform pushq.check_times(start_at, 'start_at', send_by);
  message := pushq.new_message(q, root, payload, push_type, priority, expiration, collapse_id, at_most_once);
  insert into pushq.campaign (queue_id, id, key, digest, message_id)
  values (q, root, new_campaign.key, new_campaign.digest, message)
  on conflict on constraint campaign_key_once do nothing;
  if not found then
    -- Somebody started it at the same moment.
    delete from pushq.message m where m.day = pushq.today() and m.queue_id = q and m.id = message;
    return pushq.earlier_campaign(q, key, digest);
  end if;
  insert into pushq.campaign_tally (queue_id, campaign_id) values (q, root);
  insert into pushq.fan_out (queue_id, campaign_id, message_id, list_id, start_at, send_by, at_most_once, last_device_id)
  select q, root, message, new_campaign.list_id, new_campaign.start_at,
         coalesce(new_campaign.send_by, greatest(new_campaign.start_at, now()) + interval '24 hours'), new_campaign.at_most_once,
         -- Of one that starts later the audience is who is there then.
         case when new_campaign.start_at <= now()
              then coalesce((select id from pushq.device where queue_id = q order by id desc limit 1), 0) end;
  perform pushq.wake(q);
  return root;
end $$;

-- Starts a campaign to all active devices of a queue, once: a repeated call under the same key returns the first one's id, and
-- the same key for something else is an error.
create function pushq.start_campaign(
  queue        text,
  key          text,
  payload      anycompatible,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null
) returns bigint
language plpgsql as $$
declare
  body json := payload::text::json;
begin
  return pushq.new_campaign(pushq.queue_id(queue), key,
    sha256(convert_to(row(pushq.content(body), push_type, priority, collapse_id, at_most_once)::text, 'UTF8')),
    body, push_type, priority, expiration, collapse_id, at_most_once, start_at, send_by, null);
end $$;

-- Pauses a campaign. Its jobs are not touched here: the campaign is marked, workers are told and look at the mark, and so does everybody
-- who claims one of its jobs: it is given back and set aside till the campaign goes on. Neither are its counts, which every job that ends
-- needs: the caller's transaction may last.
create function pushq.pause_campaign(queue text, key text) returns boolean
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
  c bigint;
begin
  update pushq.campaign k set paused_at = now()
  where k.queue_id = q and k.key = $2 and paused_at is null and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  update pushq.fan_out set paused = true where queue_id = q and campaign_id = c;
  perform pushq.tell('root', c);
  return true;
end $$;

-- Lets a paused campaign go on.
create function pushq.resume_campaign(queue text, key text) returns boolean
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
  c bigint;
begin
  update pushq.campaign k set paused_at = null
  where k.queue_id = q and k.key = $2 and paused_at is not null and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  update pushq.fan_out set paused = false where queue_id = q and campaign_id = c;
  -- By the index of what is ready, whose last entries of each lane are those that were set aside.
  update pushq.job set run_at = now()
  where queue_id = q and lane = any ('{0,1,2}') and run_at = 'infinity' and campaign_id = c;
  perform pushq.wake(q);
  return true;
end $$;

-- Cancels a campaign for good: no more jobs are made; those that wait are due at once, and whoever claims or holds one ends it,
-- its untouched recipients as cancelled and its uncertain ones as unknown. Recipients of a list that are in no job yet are counted as
-- cancelled here; who else a campaign to all devices would have been for is not known.
create function pushq.cancel_campaign(queue text, key text) returns boolean
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
  c bigint;
begin
  update pushq.campaign k set cancelled_at = now(), paused_at = null
  where k.queue_id = q and k.key = $2 and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  -- After the step that somebody may be at.
  perform from pushq.fan_out f where f.queue_id = q and f.campaign_id = c for no key update;
  update pushq.fan_out f
  set done = true, done_at = coalesce(f.done_at, now()), paused = false, rest = '{}',
      not_made = coalesce((
        select l.token_count - f.made from pushq.list l where not f.done and l.queue_id = q and l.id = f.list_id), 0)
  where f.queue_id = q and f.campaign_id = c;
  -- A campaign's jobs are in the bulk lane, the retries among them: sends that are scheduled there are none.
  update pushq.job set run_at = now() where queue_id = q and lane = 2 and run_at > now() and campaign_id = c;
  perform pushq.tell('root', c);
  perform pushq.wake(q);
  return true;
end $$;

-- Cancels a send or a broadcast: whoever claims or holds a job of it ends it, its untouched recipients as cancelled and its uncertain
-- ones as unknown. `stopped` recipients are sent to no more; `held` ones are in the hands of workers, which stop within moments,
-- and were perhaps sent to. Doing it again changes nothing.
create function pushq.cancel(queue text, send bigint, out stopped bigint, out held bigint)
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
begin
  if exists (select from pushq.campaign c where c.queue_id = q and c.id = send) then
    raise exception using errcode = 'PQ400', message = format('%s is a campaign', send),
      hint = 'cancel it by its key, with pushq.cancel_campaign';
  elsif not exists (select from pushq.body b where b.queue_id = q and b.root_id = send)
    and not exists (select from pushq.result r where r.queue_id = q and r.root_id = send)
    and not exists (select from pushq.empty_send e where e.queue_id = q and e.root_id = send) then
    raise exception using errcode = 'PQ404', message = format('there is no send %s in queue “%s”, or it is not kept any more', send, queue);
  end if;
  select * into stopped, held
  from pushq.stop_jobs(q, send, array(select b.job_id from pushq.body b where b.queue_id = q and b.root_id = send));
end $$;

-- Cancels one job, whatever it is of.
create function pushq.cancel_job(queue text, job bigint, out stopped bigint, out held bigint)
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
begin
  if not exists (select from pushq.job j where j.queue_id = q and j.id = cancel_job.job)
    and not exists (select from pushq.lease l where l.queue_id = q and l.job_id = cancel_job.job)
    and not exists (select from pushq.result r where r.queue_id = q and r.job_id = cancel_job.job) then
    raise exception using errcode = 'PQ404', message = format('there is no job %s in queue “%s”, or it is not kept any more', job, queue),
      hint = 'list them with: pushq-admin job list';
  end if;
  select * into stopped, held from pushq.stop_jobs(q, job, array[job]);
end $$;

-- Notes that `id` is cancelled and has those of its jobs that wait claimed at once.
create function pushq.stop_jobs(q int, id bigint, jobs bigint[], out stopped bigint, out held bigint)
language plpgsql as $$
begin
  insert into pushq.cancelled (queue_id, id) values (q, stop_jobs.id) on conflict do nothing;
  -- Below the mark, what has no outcome was perhaps sent by an earlier holder.
  with due as (
    update pushq.job j
    set run_at = least(j.run_at, now())
    where j.queue_id = q and j.id = any (jobs)
    returning j.recipient_count, j.dispatched, j.outcomes)
  select coalesce(sum(case when d.outcomes is null then d.recipient_count - d.dispatched
                           else (select count(*) from generate_series(d.dispatched, d.recipient_count - 1) n
                                 where get_byte(d.outcomes, n) = 0) end), 0)
  into stopped
  from due d;
  select coalesce(sum((select count(*) from generate_series(0, l.recipient_count - 1) n where get_byte(l.outcomes, n) = 0)), 0)
  into held
  from pushq.lease l
  where l.queue_id = q and l.job_id = any (jobs);
  perform pushq.tell('root', stop_jobs.id);
  perform pushq.wake(q);
end $$;
