-- What producers call, in their own transaction and from any language, instead of writing to tables.

-- Idempotency keys of sends. A plain table, never an index on a hot one; upkeep deletes old keys in batches.
create table pushq.send_key (
  queue_id   int         not null,
  key        text        not null,
  root_id    bigint      not null,
  digest     bytea       not null,
  due_at     timestamptz not null,                        -- when its send was due: it is forgotten some days after that
  constraint send_key_pkey primary key (queue_id, key),
  constraint send_key_length check (octet_length(key) between 1 and 200)
);

create index send_key_age on pushq.send_key (due_at);

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

-- Refuses times between which nothing could be sent. `start` is called `start_name` in the call.
create function pushq.check_times(start timestamptz, start_name text, send_by timestamptz, expiration bigint default null) returns void
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
  elsif start > now() and expiration > 0 and expiration <= extract(epoch from start) then
    raise exception using errcode = 'PQ400',
      message = format('expiration %s is not after %s %s: nothing could be sent', expiration, start_name, start),
      hint = 'it is in seconds since 1970, not from the start';
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
-- for: the same key for something else is an error. A send that was cancelled is no error, since the transaction of a producer that
-- repeats itself must not fail for that; it is a warning.
create function pushq.earlier_send(queue_id int, key text, root bigint, digest bytea, due_at timestamptz) returns bigint
language plpgsql as $$
declare
  known pushq.send_key;
begin
  perform pushq.check_key(key);
  insert into pushq.send_key (queue_id, key, root_id, digest, due_at) values ($1, $2, $3, $4, $5) on conflict do nothing;
  if found then
    return null;
  end if;
  select * into known from pushq.send_key k where k.queue_id = $1 and k.key = $2;
  if known.digest <> $4 then
    raise exception using errcode = 'PQ409', message = format('key “%s” was used for another send', key),
      hint = 'use a new key for what is not a repetition';
  elsif exists (select from pushq.cancelled x where x.queue_id = $1 and x.id = known.root_id) then
    raise warning 'send % of key “%” was cancelled: nothing is sent', known.root_id, key
      using hint = 'send it under a new key';
  end if;
  return known.root_id;
end $$;

-- Checks a message (0009_message_rules.sql, 0012_binary_interface.sql) and keeps it. Returns its id.
create function pushq.new_message(
  queue_id int, root_id bigint, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, user_key text default null, replaces boolean default false, due_at timestamptz default null
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
  insert into pushq.message (queue_id, root_id, payload, push_type, priority, expiration, collapse_id, user_key, at_most_once,
                             replaces, due_at)
  values ($1, $2, $3, $4, coalesce($5, case when $4 = 'background' then 5 end), $6, $7, $9, $8,
          $10, case when $4 = 'liveactivity' then coalesce($11, clock_timestamp()) end)
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

-- The devices of a user that a message of this push type is for, ascending; null for none.
create function pushq.devices_of_user(q int, user_key text, push_type text) returns bigint[]
language plpgsql stable as $$
begin
  return (
    select array_agg(d.id order by d.id)
    from pushq.device d
    where d.queue_id = q and d.user_key = devices_of_user.user_key and d.active
      and (d.kind is null or d.kind = push_type));
end $$;

-- Makes the jobs of a send. Without `devices` it is one job whose recipients nobody knows yet: whoever claims it finds them
-- (`pushq.find_recipients`). `first_job` and `epoch` are of the job that they take the place of.
create function pushq.make_jobs(
  q int, root bigint, message bigint, devices bigint[], lane smallint, run_at timestamptz, send_by timestamptz,
  at_most_once boolean, first_job bigint default null, epoch int default 0
) returns void
language plpgsql as $$
declare
  per_job int := pushq.job_size(q);
begin
  with cut as materialized (
    select case when first = 1 then coalesce(first_job, nextval('pushq.id')) else nextval('pushq.id') end as job_id,
           devices[first : first + per_job - 1] as part
    from generate_series(1, greatest(cardinality(devices), 1), per_job) first),
  bodies as (
    insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
    select pushq.today(), q, job_id, root, coalesce(part[1], 0), coalesce(part[cardinality(part)], 0), part from cut)
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count, at_most_once, epoch)
  select q, job_id, make_jobs.lane, make_jobs.run_at, make_jobs.send_by, message, root, pushq.today(), greatest(cardinality(part), 1),
         make_jobs.at_most_once, make_jobs.epoch
  from cut;
end $$;

-- Sends one message to some tokens, or to all devices of a user; a device that another user has registered by the time it is sent
-- gets nothing. If it is for a user and for later, it goes to the devices that the user has then. Returns the root of the send, from which each recipient's apns-id derives; if there is no recipient, that is noted, and
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
  due_at  timestamptz;
  earlier bigint;
  message bigint;
  parsed  bytea[];
  ids     bigint[];
  strays  boolean;
begin
  run_at := coalesce(run_at, now());
  due_at := greatest(run_at, clock_timestamp());
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
      'UTF8')), due_at);
    if earlier is not null then
      return earlier;
    end if;
  end if;
  perform pushq.check_times(run_at, 'run_at', send_by, expiration);

  message := pushq.new_message(
    q, root, body, push_type, priority, expiration, collapse_id, at_most_once, user_key, replace_waiting, due_at);
  if tokens is not null then
    -- A token sent to is a device, of the kind that the message is for. Sending never brings an inactive one back.
    select array_agg(distinct pushq.token(t)) into parsed from unnest(tokens) t;
    insert into pushq.device (queue_id, token, kind) select q, t, pushq.device_kind(push_type) from unnest(parsed) t
    on conflict do nothing;
    select array_agg(id order by id), bool_or(kind is not null) and pushq.device_kind(push_type) is null
    into ids, strays
    from pushq.device d where d.queue_id = q and d.token = any (parsed);
    if strays then
      -- The app's own token after all.
      update pushq.device d set kind = null where d.queue_id = q and d.id = any (ids) and d.kind is not null;
    end if;
  elsif run_at > now() then
    ids := '{}';
  else
    ids := pushq.devices_of_user(q, user_key, push_type);
  end if;
  if ids is null then
    insert into pushq.empty_send (queue_id, root_id, why) values (q, root, pushq.why_nobody(q, user_key));
    return root;
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

-- Finds the recipients of jobs that a worker has claimed before anybody knew them: sends to a user that were for later. Each
-- becomes jobs for the devices that the user has now, at the place that it had among those that wait; or a note that there are none.
-- Leases that are not `holder`'s any more, or are locked, are passed over.
create function pushq.find_recipients(queues int[], jobs bigint[], epochs int[], holder bigint) returns void
language plpgsql as $$
declare
  held pushq.lease;
  m    pushq.message;
  ids  bigint[];
begin
  for held in
    select l.*
    from unnest(queues, jobs, epochs) as g(queue_id, job_id, epoch)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = holder
    for update of l skip locked
  loop
    delete from pushq.lease l where l.queue_id = held.queue_id and l.job_id = held.job_id;
    delete from pushq.body b where b.day = held.body_day and b.queue_id = held.queue_id and b.job_id = held.job_id;
    select * into m from pushq.message k where k.day = held.body_day and k.queue_id = held.queue_id and k.id = held.message_id;
    ids := pushq.devices_of_user(held.queue_id, m.user_key, m.push_type);
    if ids is null then
      insert into pushq.empty_send (queue_id, root_id, why)
      values (held.queue_id, held.root_id, pushq.why_nobody(held.queue_id, m.user_key));
      continue;
    end if;
    perform pushq.bring_message(held.queue_id, held.message_id, held.body_day);
    perform pushq.make_jobs(
      held.queue_id, held.root_id, held.message_id, ids, held.lane, held.run_at, held.send_by, held.at_most_once, held.job_id,
      held.epoch);
    if m.replaces then
      perform pushq.supersede(held.queue_id, ids, held.message_id, m.due_at);
    end if;
  end loop;
end $$;

-- The campaign that was started under this key before, or null. `digest` is of what was asked for: the same key for something else is
-- an error, and so is that of a campaign that was cancelled, which does not start again.
create function pushq.earlier_campaign(q int, key text, digest bytea) returns bigint
language plpgsql as $$
declare
  known pushq.campaign;
begin
  select * into known from pushq.campaign c where c.queue_id = q and c.key = $2;
  if known.digest <> $3 then
    raise exception using errcode = 'PQ409', message = format('key “%s” was used for another campaign', key),
      hint = 'use a new key for what is not a repetition';
  elsif known.cancelled_at is not null then
    raise exception using errcode = 'PQ409', message = format('campaign “%s” was cancelled', key),
      hint = 'start another one under a new key';
  end if;
  return known.id;
end $$;

-- Makes a campaign's rows, or finds the campaign of that key. `list_id` is null for all active devices.
create function pushq.new_campaign(
  q int, key text, digest bytea, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, urgent boolean, start_at timestamptz, send_by timestamptz, list_id bigint
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
  perform pushq.check_times(start_at, 'start_at', send_by, expiration);
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
  insert into pushq.fan_out (queue_id, campaign_id, message_id, list_id, start_at, send_by, at_most_once, lane, last_device_id)
  select q, root, message, new_campaign.list_id, new_campaign.start_at,
         coalesce(new_campaign.send_by, greatest(new_campaign.start_at, now()) + interval '24 hours'), new_campaign.at_most_once,
         case when urgent then 0 else 2 end,
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
  urgent       boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null
) returns bigint
language plpgsql as $$
declare
  body json := payload::text::json;
begin
  return pushq.new_campaign(pushq.queue_id(queue), key,
    sha256(convert_to(row(pushq.content(body), push_type, priority, collapse_id, at_most_once, urgent)::text, 'UTF8')),
    body, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by, null);
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

-- Refuses to look for what workers have set aside with a snapshot from before they did: some of it would be left where it is.
create function pushq.check_isolation() returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not like 'read %' then
    raise exception using errcode = 'PQ409',
      message = format('a campaign cannot be resumed or cancelled in a transaction with isolation level %s',
                       current_setting('transaction_isolation')),
      hint = 'use read committed, or a transaction of its own';
  end if;
end $$;

-- Lets a paused campaign go on. If its time to send has passed meanwhile, it needs a new one: nothing could be sent.
create function pushq.resume_campaign(queue text, key text, send_by timestamptz default null) returns boolean
language plpgsql as $$
declare
  q     int := pushq.queue_id(queue);
  c     bigint;
  f     pushq.fan_out;
  until bigint;
begin
  perform pushq.check_isolation();
  update pushq.campaign k set paused_at = null
  where k.queue_id = q and k.key = $2 and paused_at is not null and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  update pushq.fan_out o set paused = false, send_by = coalesce($3, o.send_by)
  where o.queue_id = q and o.campaign_id = c
  returning * into f;
  perform pushq.check_times(f.start_at, 'start_at', send_by);
  if exists (select from pushq.campaign_progress p where p.queue_id = q and p.campaign_id = c and not p.finished) then
    select m.expiration into until
    from pushq.message m where m.day = f.message_day and m.queue_id = q and m.id = f.message_id;
    if until > 0 and until <= extract(epoch from now()) then
      raise exception using errcode = 'PQ409',
        message = format('the message of campaign “%s” expired at %s', key, to_timestamp(until)),
        hint = 'cancel it, and start another one under a new key';
    elsif f.send_by <= now() then
      raise exception using errcode = 'PQ409',
        message = format('the time to send campaign “%s” ended at %s, while it was paused', key, f.send_by),
        hint = 'resume it with a new send_by, or cancel it';
    end if;
  end if;
  -- By the index of what is ready, whose last entries of a lane are those that were set aside.
  update pushq.job j set run_at = now()
  where j.queue_id = q and j.lane = f.lane and j.run_at = 'infinity' and j.campaign_id = c;
  if resume_campaign.send_by is not null then
    update pushq.job j set send_by = $3 where j.queue_id = q and j.lane = f.lane and j.campaign_id = c;
  end if;
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
  f pushq.fan_out;
begin
  perform pushq.check_isolation();
  update pushq.campaign k set cancelled_at = now(), paused_at = null
  where k.queue_id = q and k.key = $2 and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  -- After the step that somebody may be at.
  select o.* into f from pushq.fan_out o where o.queue_id = q and o.campaign_id = c for no key update;
  update pushq.fan_out o
  set done = true, done_at = coalesce(o.done_at, now()), paused = false, rest = '{}',
      not_made = coalesce((
        select l.token_count - o.made from pushq.list l where not o.done and l.queue_id = q and l.id = o.list_id), 0)
  where o.queue_id = q and o.campaign_id = c;
  -- Its jobs are all in one lane, the retries among them. In the bulk lane no sends are scheduled that would be read here.
  update pushq.job j set run_at = now() where j.queue_id = q and j.lane = f.lane and j.run_at > now() and j.campaign_id = c;
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
