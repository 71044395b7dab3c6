-- Whom a queue can send to: its devices and channels, and what APNs reported about them.
--
-- Only an app that reports a token registers it (`pushq.register_device`). A device that was imported, or that a send
-- named first, has no time of registration: APNs' reports tell when a token died, and that is usually long before
-- such a row was made. With the time of the row in its place a dead token would be kept for ever.

-- The kind of device that a push type is for: null for the types that go to the app's own token. Each of the others
-- has a topic of its own (`pushq.topic_problem`), and tokens of its own, which no alert reaches. Not in `functions/`,
-- because a constraint uses it: if it changed, rows that were checked before would have to be checked again.
create function pushq.device_kind(push_type text) returns text
language sql immutable parallel safe as $$
  select case when push_type in ('voip', 'complication', 'fileprovider', 'liveactivity', 'location', 'pushtotalk',
                                 'widgets', 'controls')
              then push_type end
$$;

-- One row for each token of a queue, kept for as long as the app is.
create table pushq.device (
  queue_id        int         not null,
  id              bigint      not null default nextval('pushq.id'),
  token           bytea       not null,
  user_key        text,
  kind            text,                                   -- what the token is for; null: nobody said, so it is 'alert'
  active          boolean     not null default true,
  registered_at   timestamptz,                            -- when the app last reported the token; null: it never has
  reactivated_at  timestamptz,                            -- by hand; reports from before are void
  inactive_since  timestamptz,
  inactive_reason smallint,                               -- a code (QueueCore/Outcome/Reason.swift); null: not APNs
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

-- What is known of a device beside its token: one row for each that an app has registered, or that was imported with
-- any of it. Not columns of `device`, whose rows are read for every push: they would be twice as long.
create table pushq.profile (
  queue_id      int         not null,
  device_id     bigint      not null,
  installation  text,                                     -- what the app calls itself; its newer token replaces this
  activity_type text,                                     -- of a token for Live Activities: the name of its attributes
  activity      text,                                     -- … and, of an update token, the activity's id
  locale        text,                                     -- BCP 47, such as de-AT
  time_zone     text,                                     -- IANA, such as Europe/Vienna
  app_version   text,                                     -- up to 8 numbers, with dots
  tags          text[]      not null default '{}',        -- ascending, each once
  attributes    jsonb       not null default '{}',        -- names with texts, numbers and booleans
  first_seen_at timestamptz,                              -- when the app first registered it; of an import, its column
  -- When another service last saw it, as the import says. `device.registered_at` says when its app last registered it.
  seen_at       timestamptz,
  constraint profile_pkey primary key (queue_id, device_id),
  constraint profile_attributes_flat check (jsonb_typeof(attributes) = 'object')
) with (fillfactor = 90);

create index profile_installation on pushq.profile (queue_id, installation) where installation is not null;

-- What queues with a frequency cap have sent to their devices lately: of each device the pushes that count, and those
-- that are on their way. Three arrays of equal length, oldest first. One row for each device, because two workers that
-- send to one at the same time have to wait for each other; and with no index but the key, so that a push to a device
-- that is known here touches no index.
create table pushq.recent_push (
  queue_id  int           not null,
  device_id bigint        not null,
  root_ids  bigint[]      not null,
  job_ids   bigint[]      not null,                       -- on its way while that job is there; 0: it has arrived
  sent_at   timestamptz[] not null,                       -- when a worker took it up, to send it within ten seconds
  constraint recent_push_pkey primary key (queue_id, device_id),
  constraint recent_push_whole
    check (cardinality(root_ids) = cardinality(sent_at) and cardinality(job_ids) = cardinality(sent_at))
) with (fillfactor = 70);

-- The number on the icon of an app, where messages raise it: of each device the count since the app's last reset, and
-- the figures that its latest messages were sent with. Three arrays of equal length, newest first. A device that was
-- sent none, or whose app has reset it since, has no row.
create table pushq.badge (
  queue_id   int           not null,
  device_id  bigint        not null,
  count      int           not null,
  root_ids   bigint[]      not null default '{}',
  figures    int[]         not null default '{}',
  kept_until timestamptz[] not null default '{}',         -- till then it may be sent again
  constraint badge_pkey primary key (queue_id, device_id),
  constraint badge_whole
    check (cardinality(root_ids) = cardinality(figures) and cardinality(root_ids) = cardinality(kept_until))
) with (fillfactor = 70);

-- What is broadcast to: a channel that was created with Apple.
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

-- What APNs reported about devices, for the producer: evidence of every deactivation, and the suspects not yet judged.
-- Kept by day, as history is.
--
-- Producers read what was done to their devices in the order of `cursor`. Neither `id` nor a time would do: both are
-- drawn before the commit, so a reader who has gone by them misses what is committed later. A duty draws it for rows
-- that it can see (functions/list_feedback.sql).
create table pushq.feedback (
  day         date        not null default pushq.today(),
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  device_id   bigint      not null,
  reason      smallint    not null,                       -- the code of a reason
  reported_at timestamptz not null,                       -- the time that APNs gave, or that of the answer
  recorded_at timestamptz not null default now(),
  verdict     text        not null,
  root_id     bigint,                                     -- the send or campaign that was answered so, …
  job_id      bigint,                                     -- … and its job; both null: the feedback service said it
  cursor      bigint,                                     -- null: not listed, since the verdict is what it is
  listed_at   timestamptz,
  constraint feedback_pkey primary key (day, queue_id, id),
  -- 'undone': it had deactivated the device, and an operator has brought that back.
  constraint feedback_verdict_known check (verdict in ('deactivated', 'kept', 'suspect', 'undone')),
  constraint feedback_listed_has_time check ((cursor is null) = (listed_at is null))
) partition by range (day);

create index feedback_suspect on pushq.feedback (queue_id, recorded_at) where verdict = 'suspect';
create index feedback_unlisted on pushq.feedback (queue_id, id)
  where cursor is null and verdict in ('deactivated', 'undone');
create index feedback_cursor on pushq.feedback (queue_id, cursor) where cursor is not null;

-- Up to when a queue's suspects have been judged, and whether they were spared: an older suspect that is left was
-- locked by another transaction. Only the duty that judges writes here (Upkeep/Suspects.swift).
create table pushq.judgement (
  queue_id  int         not null,
  judged_to timestamptz not null,
  spared    boolean     not null,                         -- the queue was to blame, and not its devices
  constraint judgement_pkey primary key (queue_id)
);

-- When the feedback service of the binary interface was asked about a queue. It is asked again when the queue's
-- `feedback_every` has passed since. A queue that was never asked about has no row.
create table pushq.feedback_poll (
  queue_id    int         not null,
  polled_at   timestamptz,                                -- when a list was last read to its end
  not_before  timestamptz,                                -- not asked till then: a worker reads its list, or could not
  taken_until timestamptz,                                -- a worker reads its list, till then at most
  failures    int         not null default 0,             -- in a row
  problem     text,                                       -- the error of the last of them
  constraint feedback_poll_pkey primary key (queue_id)
);

-- What APNs reported about tokens, to be acted on later. It is the lists of the feedback service: reading clears
-- Apple's list, so a worker writes this first. And it is the answers that came while another transaction wrote the row
-- of the device. Any worker may act on a record, and deletes it then.
create table pushq.feedback_record (
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  token       bytea       not null,
  reason      smallint    not null,                       -- the code of a reason
  reported_at timestamptz not null,
  root_id     bigint,                                     -- the send or campaign that was answered so, …
  job_id      bigint,                                     -- … and its job; both null: the feedback service said it
  constraint feedback_record_pkey primary key (queue_id, id)
);
