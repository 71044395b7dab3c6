-- The recipients of a queue: its devices and channels, and what APNs reported about them.
--
-- Only an app that reports its token registers it (`pushq.register_device`). A device that was imported, or that a send
-- named first, has no time of registration. APNs reports when a token died, usually long before such a row was created.
-- If the row's creation counted as a registration, a dead token would be kept for ever.

-- The kind of device that a push type needs; null for types that use the app's own token. Each of the other types has
-- its own topic (`pushq.topic_problem`) and its own tokens, which receive no alerts. The function is not in
-- `functions/`, because a constraint uses it: after a change, rows that were checked before would have to be checked
-- again.
create function pushq.device_kind(push_type text) returns text
language sql immutable parallel safe as $$
  select case when push_type in ('voip', 'complication', 'fileprovider', 'liveactivity', 'location', 'pushtotalk',
                                 'widgets', 'controls')
              then push_type end
$$;

-- One row for each token of a queue, kept as long as the app.
create table pushq.device (
  queue_id        int         not null,
  id              bigint      not null default nextval('pushq.id'),
  token           bytea       not null,
  user_key        text,
  kind            text,                                   -- what the token is for; null: not stated, so 'alert'
  active          boolean     not null default true,
  registered_at   timestamptz,                            -- when the app last reported the token; null: never
  reactivated_at  timestamptz,                            -- by hand; earlier reports are void
  inactive_since  timestamptz,
  inactive_reason smallint,                               -- a code (QueueCore/Outcome/Reason.swift); null: not by APNs
  replaced_by     bigint,                                 -- the user's newest token of the same installation
  constraint device_pkey primary key (queue_id, id),
  constraint device_token_once unique (queue_id, token),
  constraint device_token_length check (octet_length(token) between 1 and 100),
  constraint device_user_key_length check (octet_length(user_key) between 1 and 200),
  constraint device_active_or_since check (active = (inactive_since is null)),
  constraint device_kind_known check (
    kind is null or kind in ('alert', 'liveactivity-start') or pushq.device_kind(kind) is not null)
) with (fillfactor = 90);

create index device_user on pushq.device (queue_id, user_key) where user_key is not null;
create index device_replaced on pushq.device (queue_id, replaced_by) where replaced_by is not null;
-- Upkeep reads the update tokens of Live Activities, and not the devices beside them. `registered_at` is in no index,
-- because each start of an app changes it.
create index device_activity on pushq.device (queue_id, id) where kind = 'liveactivity';

-- What is known about a device besides its token. A device has a row if an app registered it, or if it was imported
-- with any of these values. They are not columns of `device`, whose rows are read for every push and would be twice as
-- long.
create table pushq.profile (
  queue_id      int         not null,
  device_id     bigint      not null,
  installation  text,                                     -- the app's own identifier; its newer token replaces this one
  activity_type text,                                     -- of a token for Live Activities: its attributes type
  activity      text,                                     -- of an update token: the activity's id
  locale        text,                                     -- BCP 47, such as de-AT
  time_zone     text,                                     -- IANA, such as Europe/Vienna
  app_version   text,                                     -- up to 8 numbers, with dots
  tags          text[]      not null default '{}',        -- ascending, without duplicates
  attributes    jsonb       not null default '{}',        -- name -> text, number or boolean
  first_seen_at timestamptz,                              -- first registration by the app, or the import's column
  -- When another service last saw the device, according to the import. `device.registered_at` says when its app last
  -- registered it.
  seen_at       timestamptz,
  constraint profile_pkey primary key (queue_id, device_id),
  constraint profile_attributes_flat check (jsonb_typeof(attributes) = 'object')
) with (fillfactor = 90);

create index profile_installation on pushq.profile (queue_id, installation) where installation is not null;

-- The latest pushes to devices of queues with a frequency cap: those that count, and those that are being sent. The
-- three arrays have equal length, oldest first. There is one row per device, so that two workers that send to the same
-- device wait for each other. The table has no index but its key, so an update for a known device touches no index.
create table pushq.recent_push (
  queue_id  int           not null,
  device_id bigint        not null,
  root_ids  bigint[]      not null,
  job_ids   bigint[]      not null,                       -- being sent while this job exists; 0: it has arrived
  sent_at   timestamptz[] not null,                       -- when a worker took it, to send it within ten seconds
  constraint recent_push_pkey primary key (queue_id, device_id),
  constraint recent_push_whole
    check (cardinality(root_ids) = cardinality(sent_at) and cardinality(job_ids) = cardinality(sent_at))
) with (fillfactor = 70);

-- The number on an app's icon, for messages that raise it: for each device the count since the app's last reset, and
-- the figures that were sent last with its latest messages. The three arrays have equal length, newest first. A device
-- has no row if no such message was sent to it, or if its app has reset the number since.
create table pushq.badge (
  queue_id   int           not null,
  device_id  bigint        not null,
  count      int           not null,
  root_ids   bigint[]      not null default '{}',
  figures    int[]         not null default '{}',
  kept_until timestamptz[] not null default '{}',         -- the message may be sent again until then
  constraint badge_pkey primary key (queue_id, device_id),
  constraint badge_whole
    check (cardinality(root_ids) = cardinality(figures) and cardinality(root_ids) = cardinality(kept_until))
) with (fillfactor = 70);

-- Parts of the devices. A worker that counts pushes to devices locks the rows of their parts for as long as its
-- statement runs (`pushq.take_turns`). Several queues may have a part in common. Unlogged: a crash ends all turns.
create unlogged table pushq.device_turn (
  part int not null,
  constraint device_turn_pkey primary key (part)
);

-- The recipients of broadcasts: channels that were created at Apple.
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

-- What APNs reported about devices, for the producer: evidence for every deactivation, and suspects that are not judged
-- yet. It is kept by day, like history.
--
-- Producers read the actions taken on their devices in the order of `cursor`. Neither `id` nor a time can serve as a
-- cursor: both are assigned before the commit, so a reader that is past them misses rows that are committed later. A
-- duty assigns the cursor to rows that it can see (functions/list_feedback.sql).
create table pushq.feedback (
  day         date        not null default pushq.today(),
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  device_id   bigint      not null,
  reason      smallint    not null,                       -- the code of a reason
  reported_at timestamptz not null,                       -- the time that APNs gave, or the time of the answer
  recorded_at timestamptz not null default now(),
  verdict     text        not null,
  root_id     bigint,                                     -- the send or campaign that got the answer, …
  job_id      bigint,                                     -- … and its job; both null: from the feedback service
  cursor      bigint,                                     -- null: not listed since it got its verdict
  listed_at   timestamptz,
  constraint feedback_pkey primary key (day, queue_id, id),
  -- 'kept': the report deactivated nothing, or the device was registered again before the report was listed.
  -- 'undone': the report had deactivated the device, and an operator has reactivated it.
  constraint feedback_verdict_known check (verdict in ('deactivated', 'kept', 'suspect', 'undone')),
  constraint feedback_listed_has_time check ((cursor is null) = (listed_at is null))
) partition by range (day);

create index feedback_suspect on pushq.feedback (queue_id, recorded_at) where verdict = 'suspect';
create index feedback_unlisted on pushq.feedback (queue_id, id)
  where cursor is null and verdict in ('deactivated', 'undone');
create index feedback_cursor on pushq.feedback (queue_id, cursor) where cursor is not null;

-- The time up to which a queue's suspects have been judged, and whether they were spared. An older suspect that is
-- still unjudged was locked by another transaction, or committed late. Only the duty that judges suspects writes this
-- table (Upkeep/Suspects.swift).
create table pushq.judgement (
  queue_id  int         not null,
  judged_to timestamptz not null,
  spared    boolean     not null,                         -- the queue was to blame, not its devices
  constraint judgement_pkey primary key (queue_id)
);

-- The last query of the binary interface's feedback service for each queue. The next query is due after the queue's
-- `feedback_every`. A queue without a row was never queried.
create table pushq.feedback_poll (
  queue_id    int         not null,
  polled_at   timestamptz,                                -- when a list was last read to its end
  not_before  timestamptz,                                -- no query before: a worker reads, or it failed
  taken_until timestamptz,                                -- a worker reads the list, at most until then
  failures    int         not null default 0,             -- in a row
  problem     text,                                       -- the error of the last failure
  constraint feedback_poll_pkey primary key (queue_id)
);

-- Reports of APNs about tokens that still have to be processed. Some come from the feedback service: reading clears
-- Apple's list, so a worker first writes it here. The others are answers that came while another transaction had
-- written the device's row. Any worker may process a record, and then deletes it.
create table pushq.feedback_record (
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  token       bytea       not null,
  reason      smallint    not null,                       -- the code of a reason
  reported_at timestamptz not null,
  root_id     bigint,                                     -- the send or campaign that got the answer, …
  job_id      bigint,                                     -- … and its job; both null: from the feedback service
  constraint feedback_record_pkey primary key (queue_id, id)
);
