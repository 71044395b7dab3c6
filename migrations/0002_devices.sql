-- Devices: one row for each token of a queue, kept for as long as the app is.
--
-- Only an app that reports a token registers it (`register_device`). A device that was imported, or that a send named
-- first, has no time of registration: APNs' reports tell when a token died, and that is usually long before such a row
-- was made. With the time of the row in its place a dead token would be kept for ever.

-- The kind of device that a push type is for: null for the types that go to the app's own token. Each of the others has a topic
-- of its own (`pushq.topic_problem`), and tokens of its own, which no alert reaches.
create function pushq.device_kind(push_type text) returns text
language sql immutable parallel safe as $$
  select case when push_type in ('voip', 'complication', 'fileprovider', 'liveactivity', 'location', 'pushtotalk', 'widgets', 'controls')
              then push_type end
$$;

create table pushq.device (
  queue_id        int         not null,
  id              bigint      not null default nextval('pushq.id'),
  token           bytea       not null,
  user_key        text,
  kind            text,                                   -- the push type that the token is for; null: the app's own token
  active          boolean     not null default true,
  registered_at   timestamptz,                            -- when the app last reported the token; null: it never has
  reactivated_at  timestamptz,                            -- when somebody brought it back by hand: reports from before are void
  inactive_since  timestamptz,
  inactive_reason smallint,                               -- the code of a reason (QueueCore/Outcome/Reason.swift); null: by hand
  constraint device_pkey primary key (queue_id, id),
  constraint device_token_once unique (queue_id, token),
  constraint device_token_length check (octet_length(token) between 1 and 100),
  constraint device_active_or_since check (active = (inactive_since is null)),
  constraint device_kind_known check (kind = pushq.device_kind(kind))
) with (fillfactor = 90);

create index device_user on pushq.device (queue_id, user_key) where user_key is not null;

-- What APNs reported about devices, for the producer: evidence of every deactivation, and the suspects not yet judged.
-- Kept by day, as history is.
create table pushq.feedback (
  day         date        not null default pushq.today(),
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  device_id   bigint      not null,
  reason      smallint    not null,                       -- the code of a reason
  reported_at timestamptz not null,                       -- the time that APNs gave, or that of the answer
  recorded_at timestamptz not null default now(),
  verdict     text        not null,
  constraint feedback_pkey primary key (day, queue_id, id),
  constraint feedback_verdict_known check (verdict in ('deactivated', 'kept', 'suspect'))
) partition by range (day);

create index feedback_suspect on pushq.feedback (queue_id, recorded_at) where verdict = 'suspect';

-- Up to when a queue's suspects have been judged, and whether they were spared: a suspect from before that is left was locked by
-- somebody. Only the duty that judges writes here (Fleet/Suspects.swift).
create table pushq.judgement (
  queue_id  int         not null,
  judged_to timestamptz not null,
  spared    boolean     not null,                         -- the queue was to blame, and not its devices
  constraint judgement_pkey primary key (queue_id)
);

-- Reads a token in hexadecimal of either case, angle brackets and spaces passed over.
create function pushq.token(hex text) returns bytea
language plpgsql immutable as $$
declare
  digits text := translate(hex, '<> ', '');
begin
  if digits is null or digits = '' then
    raise exception using errcode = 'PQ400', message = 'the device token is empty',
      hint = 'a token is hexadecimal, such as 64 digits';
  elsif digits !~ '^[0-9A-Fa-f]*$' then
    raise exception using errcode = 'PQ400', message = 'the device token has a character that is not hexadecimal',
      hint = 'a token is hexadecimal, such as 64 digits';
  elsif length(digits) % 2 = 1 then
    raise exception using errcode = 'PQ400', message = format('the device token has %s hexadecimal digits', length(digits)),
      hint = 'the number of digits must be even, such as 64';
  elsif length(digits) > 200 then
    raise exception using errcode = 'PQ400', message = format('the device token has %s bytes', length(digits) / 2),
      hint = 'at most 100 bytes are taken';
  end if;
  return decode(digits, 'hex');
end $$;

-- Registers a token when the app reports it: makes the device, or brings it back if it was inactive. Whose it is stays as it was.
-- Returns its id.
--
-- By the clock and not by the beginning of the caller's transaction, which may have been long ago: a report of APNs from between
-- the two is older than the registration.
create function pushq.register_device(queue text, token text) returns bigint
language sql as $$
  insert into pushq.device as d (queue_id, token, registered_at)
  values (pushq.queue_id($1), pushq.token($2), clock_timestamp())
  on conflict on constraint device_token_once do update
    set active = true, inactive_since = null, inactive_reason = null, registered_at = excluded.registered_at, kind = null
  returning id
$$;

-- The same, and says whose device it is: null for nobody's.
create function pushq.register_device(queue text, token text, user_key text) returns bigint
language sql as $$
  insert into pushq.device as d (queue_id, token, user_key, registered_at)
  values (pushq.queue_id($1), pushq.token($2), $3, clock_timestamp())
  on conflict on constraint device_token_once do update
    set active = true, inactive_since = null, inactive_reason = null, registered_at = excluded.registered_at,
        user_key = excluded.user_key, kind = null
  returning id
$$;

-- Takes a registration back when somebody logs out: the device belongs to nobody and is sent to no more, until it is registered again.
-- Returns whether it was active; a token that is not known was not.
create function pushq.unregister_device(queue text, token text) returns boolean
language plpgsql as $$
declare
  q          int   := pushq.queue_id(queue);
  bytes      bytea := pushq.token(token);
  was_active boolean;
begin
  select d.active into was_active from pushq.device d where d.queue_id = q and d.token = bytes for no key update;
  update pushq.device d
  set active = false, user_key = null, inactive_since = coalesce(d.inactive_since, clock_timestamp())
  where d.queue_id = q and d.token = bytes and (d.active or d.user_key is not null);
  return coalesce(was_active, false);
end $$;
