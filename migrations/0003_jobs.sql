-- The queue itself, from a message to its result.
--
-- A job is a row in exactly one of two tables: `job` while it waits, `lease` while a worker holds it. A claim moves it
-- to `lease`; a yield or a rescue moves it back. So there is no state column and no partial index on one. `lease` has
-- only its primary key, so flushes stay HOT. Fencing means: the row still exists with the worker's epoch.
--
-- Large or finished rows are written once and dropped by day, so retention leaves no bloat. Only a retry by hand
-- updates a result (`retried_at`). Upkeep (Workers/Duties/UpkeepDuty.swift) attaches days ahead and drops old ones.
-- `attach` takes SHARE UPDATE EXCLUSIVE; `create table … partition of` would take ACCESS EXCLUSIVE and stop every
-- enqueue behind one idle transaction.

-- Messages are kept by day and dropped with it. Each day on which one of a message's jobs has its body has a copy of
-- the message (`pushq.bring_message`).
create table pushq.message (
  day          date        not null default pushq.today(),
  queue_id     int         not null,
  id           bigint      not null default nextval('pushq.id'),
  root_id      bigint      not null,                      -- the send, broadcast or campaign that it belongs to
  payload      json        not null,                      -- json, not jsonb: sent byte for byte as given
  -- Of a personal message, which differs between recipients: the payloads in other languages, and the attributes for
  -- which `payload` or one of these has placeholders. A worker puts each recipient's payload together
  -- (recipient_values).
  languages    text[],
  translations text[],                                    -- a payload for each of `languages`
  translated_bytes int,                                   -- the length of `translations`: what a claim counts
  placeholders text[],
  push_type    text        not null,
  priority     smallint,                                  -- null: no header
  expiration   bigint,                                    -- null: no header; 0: one attempt; else seconds since 1970
  collapse_id  text,
  user_key     text,                                      -- the user that it is for; null: all devices of its jobs
  at_most_once boolean     not null default false,
  is_broadcast boolean     not null default false,        -- the recipient of its job is a channel
  replaces     boolean     not null default false,        -- of a Live Activity: replaces updates that were due before
  due_at       timestamptz,                               -- of a Live Activity: decides which update is newer
  created_at   timestamptz not null default now(),
  traceparent  text,                                      -- W3C: the trace of the send; shown, never sent
  badge_increment smallint,                               -- by how much it raises the number on the app's icon
  constraint message_pkey primary key (day, queue_id, id),
  constraint message_translations_have_language check (
    cardinality(languages) is not distinct from cardinality(translations)),
  constraint message_translations_have_length check ((translations is null) = (translated_bytes is null))
) partition by range (day);

create table pushq.body (                                 -- the recipients of a job
  day             date     not null,                      -- the day on which the job was created
  queue_id        int      not null,
  job_id          bigint   not null,
  root_id         bigint   not null,
  -- Within (root, 0) no device is repeated and ranges are disjoint, except in campaigns with shares or at a local time.
  -- Negative slices may repeat a device: a recipient can continue in another job without using an attempt.
  slice           smallint not null default 0,            -- 0: the original jobs; otherwise -attempt
  first_device_id bigint   not null,
  last_device_id  bigint   not null,
  device_ids      bigint[] not null,                      -- ascending; of a broadcast: the channel's id
  constraint body_pkey primary key (day, queue_id, job_id)
) partition by range (day);

-- Compressing 500 sorted ids with pglz takes three quarters of the whole fan-out's time; external storage costs
-- nothing. PostgreSQL 15 has no clause of `create table` for it.
alter table pushq.body alter device_ids set storage external;

-- "Did this device get that campaign?" takes a look-up here, a binary search, and one byte of `result.outcomes`.
create index body_range on pushq.body (queue_id, root_id, slice, first_device_id);

-- If you add a column, decide for each insert into `job` and `lease` whether it carries the column: a test lists them
-- (Tests/PostgresStoreTests/Leasing/JobColumnsTests.swift).
create table pushq.job (                                  -- waiting; about 100 bytes
  queue_id        int         not null,
  id              bigint      not null,
  -- 0 urgent, 1 normal, 2 bulk. A higher number is the lane of one campaign; the remainder of division by 3 is its
  -- urgency.
  lane            int         not null,
  run_at          timestamptz not null,                   -- 'infinity' while its campaign is paused
  send_by         timestamptz not null,                   -- it is not sent after this time
  message_id      bigint      not null,
  campaign_id     bigint,
  root_id         bigint      not null,                   -- the apns-id derives from it; it survives every split
  body_day        date        not null,                   -- the day of its body and of its message
  recipient_count smallint    not null,
  attempt         smallint    not null default 1,         -- answers spent; only the end of the job changes it
  losses          smallint    not null default 0,         -- lost workers, and sends without an answer
  epoch           int         not null default 0,         -- grows with every claim and fences every write
  at_most_once    boolean     not null default false,
  is_quiet        boolean     not null default false,     -- due at the end of its recipients' quiet hours
  watermark       smallint   not null default 0,         -- if begun: pushes to lower ordinals may have been sent
  outcomes        bytea,                                  -- if begun: the outcomes known when it was given back
  constraint job_pkey primary key (queue_id, id),
  constraint job_recipients_range check (recipient_count between 1 and 500),
  -- PostgreSQL before 17 cannot subtract infinite times. One job with such a time would fail every poll and claim of
  -- every worker.
  constraint job_times_finite check (isfinite(send_by) and run_at > '-infinity')
) with (fillfactor = 90,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- `lane` comes before `run_at`, and every probe binds both: with an unbound lane in front, 300,000 scheduled jobs cost
-- each claim 10 ms.
create index job_ready on pushq.job (queue_id, lane, run_at, id);

-- The jobs of a send or campaign that wait for the end of quiet hours. The index is empty for queues without quiet
-- hours.
create index job_quiet on pushq.job (queue_id, root_id) where is_quiet;

-- The begun jobs of a send or campaign, whose outcomes count already. Few jobs are given back.
create index job_begun on pushq.job (queue_id, root_id) where outcomes is not null;

create table pushq.lease (                                -- held: hundreds to thousands of rows
  queue_id        int         not null,
  job_id          bigint      not null,
  worker_id       bigint      not null,
  epoch           int         not null,
  deadline        timestamptz not null,                   -- it alone decides who may write
  watermark       smallint   not null,
  outcomes        bytea       not null,                   -- a byte for each recipient, 0 = no answer yet
  flush           bigint      not null default 0,         -- number of the last flush: a late, older one is void
  lane            int         not null,
  run_at          timestamptz not null,
  send_by         timestamptz not null,
  message_id      bigint      not null,
  campaign_id     bigint,
  root_id         bigint      not null,
  body_day        date        not null,
  recipient_count smallint    not null,
  attempt         smallint    not null,
  losses          smallint    not null,
  at_most_once    boolean     not null,
  constraint lease_pkey primary key (queue_id, job_id)    -- no other index, no foreign key: so flushes are HOT
) with (fillfactor = 40,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Jobs whose end PostgreSQL has refused although it accepted the ends of other jobs. After a few tries such a job is
-- set aside: it stays in `job`, due at infinity, until an operator resumes it (`pushq-admin job resume`). The row is
-- deleted after the job has ended.
create table pushq.stuck_job (
  queue_id     int         not null,
  job_id       bigint      not null,
  tries        smallint    not null default 1,            -- how often its end was refused
  problem      text        not null,                      -- the last refusal
  refused_at   timestamptz not null default now(),
  set_aside_at timestamptz,
  constraint stuck_job_pkey primary key (queue_id, job_id)
);

create table pushq.result (                               -- the end of a job
  day         date        not null,                       -- the day on which it ended
  queue_id    int         not null,
  job_id      bigint      not null,
  root_id     bigint      not null,
  body_day    date        not null,
  message_id  bigint      not null,
  lane        int         not null,
  attempt     smallint    not null,
  ended_at    timestamptz not null,
  outcomes    bytea       not null,                       -- QueueCore/Outcome/Outcome.swift
  delivered   smallint    not null,
  rejected    smallint    not null,
  failed      smallint    not null,
  suppressed  smallint    not null,
  expired     smallint    not null,
  cancelled   smallint    not null,
  unknown     smallint    not null,
  retried     smallint    not null,                       -- continue in another job: APNs refused or did not answer
  notes       jsonb,                                      -- ordinal -> text of a reason that pushq does not know
  losses      bytea,                                      -- sends without an answer, a byte for each recipient
  retried_at  timestamptz,                                -- set once: when its failed recipients were retried by hand
  worker_id   bigint,                                     -- the worker that ended it
  constraint result_pkey primary key (day, queue_id, job_id)
) partition by range (day);

create index result_root on pushq.result (queue_id, root_id, job_id);

-- The answers of APNs in the order of time, by which a queue's suspects are judged.
create index result_answered on pushq.result (queue_id, ended_at) where delivered + rejected > 0;

-- The other jobs in the order of time. With both indexes a trace finds what ended in a time, and no job is in both.
create index result_unanswered on pushq.result (queue_id, ended_at) where delivered + rejected = 0;

-- Jobs with failed recipients that were not retried. They are few, and other inserts do not touch these indexes.
create index result_failed on pushq.result (queue_id, job_id) where failed > 0 and retried_at is null;
create index result_failed_anywhere on pushq.result (job_id) where failed > 0 and retried_at is null;
