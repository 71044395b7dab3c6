-- The queue itself, from a message to its result.
--
-- A job is a row in exactly one of two tables: `job` while it waits, `lease` while a worker holds it. Claiming moves
-- it, yielding and rescuing move it back. So there is no state column and no partial index on one, `lease` has only
-- its primary key (flushes stay HOT), and fencing is: my row is still there, with my epoch.
--
-- What is large or finished is written once, and dropped by day: retention leaves no bloat. Only a retry by hand
-- updates a result (`retried_at`). Upkeep (Workers/Duties/UpkeepDuty.swift) attaches days ahead and drops old ones.
-- `attach` takes SHARE UPDATE EXCLUSIVE, where `create table … partition of` would take ACCESS EXCLUSIVE and stop
-- every enqueue behind one idle transaction.

-- Kept by day, and dropped with it: on each day on which a job for it has its body, there is a copy
-- (`pushq.bring_message`).
create table pushq.message (
  day          date        not null default pushq.today(),
  queue_id     int         not null,
  id           bigint      not null default nextval('pushq.id'),
  root_id      bigint      not null,                      -- the send, broadcast or campaign that it is for
  payload      json        not null,                      -- json, not jsonb: sent byte for byte as it was given
  -- Of a personal message, which is not the same for all recipients: payloads in other languages, and the attributes
  -- that these and `payload` have placeholders for. A worker joins what each recipient gets (recipient_values).
  languages    text[],
  translations text[],                                    -- a payload for each of `languages`
  placeholders text[],
  push_type    text        not null,
  priority     smallint,                                  -- null: no header
  expiration   bigint,                                    -- null: no header; 0: one attempt; else seconds since 1970
  collapse_id  text,
  user_key     text,                                      -- the user it is for; null: all devices of its jobs
  at_most_once boolean     not null default false,
  is_broadcast boolean     not null default false,        -- the recipient of its job is a channel
  replaces     boolean     not null default false,        -- of a Live Activity: replaces what was due before it
  due_at       timestamptz,                               -- of a Live Activity: decides which update is newer
  created_at   timestamptz not null default now(),
  traceparent  text,                                      -- W3C's: where the send came from; shown, and sent nowhere
  badge_increment smallint,                               -- by how much it raises the number on the app's icon
  constraint message_pkey primary key (day, queue_id, id),
  constraint message_translations_have_language check (
    cardinality(languages) is not distinct from cardinality(translations))
) partition by range (day);

create table pushq.body (                                 -- the recipients of a job
  day             date     not null,                      -- on which it was made
  queue_id        int      not null,
  job_id          bigint   not null,
  root_id         bigint   not null,
  -- Within (root, slice) no device is twice, and ranges are disjoint, but for campaigns with shares or at a local time.
  slice           smallint not null default 0,            -- retries: -attempt
  first_device_id bigint   not null,
  last_device_id  bigint   not null,
  device_ids      bigint[] not null,                      -- ascending; of a broadcast, the channel's id
  constraint body_pkey primary key (day, queue_id, job_id)
) partition by range (day);

-- Compressing 500 sorted ids with pglz costs three quarters of all fan-out; external costs nothing. PostgreSQL 15 has
-- no clause of `create table` for it.
alter table pushq.body alter device_ids set storage external;

-- "Did this device get that campaign?" is a look-up here, a binary search and one byte of `result.outcomes`.
create index body_range on pushq.body (queue_id, root_id, slice, first_device_id);

-- If you add a column, decide for each insert into `job` and `lease` whether it carries the column: a test lists them
-- (Tests/PostgresStoreTests/Leasing/JobColumnsTests.swift).
create table pushq.job (                                  -- waiting; about 100 bytes
  queue_id        int         not null,
  id              bigint      not null,
  -- 0 urgent, 1 normal, 2 bulk. Higher: the lane of one campaign, which is as urgent as the rest of division by 3.
  lane            int         not null,
  run_at          timestamptz not null,                   -- 'infinity' while its campaign is paused
  send_by         timestamptz not null,                   -- later it is not sent any more
  message_id      bigint      not null,
  campaign_id     bigint,
  root_id         bigint      not null,                   -- what apns-id derives from; survives every split
  body_day        date        not null,                   -- of its body, and of the message beside that
  recipient_count smallint    not null,
  attempt         smallint    not null default 1,         -- answers spent; only the end of the job changes it
  rescues         smallint    not null default 0,         -- lost workers, and sends without an answer
  epoch           int         not null default 0,         -- grows with every claim and fences every write
  at_most_once    boolean     not null default false,
  is_quiet        boolean     not null default false,     -- it is due when the quiet hours of its recipients have ended
  watermark       smallint   not null default 0,         -- of a job that was begun: ordinals below may have been sent
  outcomes        bytea,                                  -- of a job that was begun: what was known when it came back
  constraint job_pkey primary key (queue_id, id),
  constraint job_recipients_range check (recipient_count between 1 and 500),
  -- PostgreSQL before 17 cannot subtract infinite times: one such job would fail every poll and claim of every worker.
  constraint job_times_finite check (isfinite(send_by) and run_at > '-infinity')
) with (fillfactor = 90,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Lane before run_at and both bound in every probe: behind an unbound lane, 300,000 scheduled jobs cost each claim 10
-- ms.
create index job_ready on pushq.job (queue_id, lane, run_at, id);

-- Only while there are quiet hours: how many of a send or campaign wait for their end.
create index job_quiet on pushq.job (queue_id, root_id) where is_quiet;

create table pushq.lease (                                -- held: hundreds to thousands of rows
  queue_id        int         not null,
  job_id          bigint      not null,
  worker_id       bigint      not null,
  epoch           int         not null,
  deadline        timestamptz not null,                   -- alone decides who may write
  watermark       smallint   not null,
  outcomes        bytea       not null,                   -- a byte for each recipient, 0 = no answer yet
  flush           bigint      not null default 0,         -- number of the last one: a late, older one is void
  lane            int         not null,
  run_at          timestamptz not null,
  send_by         timestamptz not null,
  message_id      bigint      not null,
  campaign_id     bigint,
  root_id         bigint      not null,
  body_day        date        not null,
  recipient_count smallint    not null,
  attempt         smallint    not null,
  rescues         smallint    not null,
  at_most_once    boolean     not null,
  constraint lease_pkey primary key (queue_id, job_id)    -- no other index and no foreign key, or flushes are not HOT
) with (fillfactor = 40,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Jobs whose end PostgreSQL has refused, though it took the ends of others. After a few tries such a job is set aside:
-- it stays in `job`, due at infinity, until somebody resumes it by hand (`pushq-admin job resume`). A row whose job has
-- ended is cleared away.
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
  day         date        not null,                       -- on which it ended
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
  retried     smallint    not null,                       -- go on in another job, since APNs refused or said nothing
  notes       jsonb,                                      -- ordinal -> text of a reason that pushq does not know
  retried_at  timestamptz,                                -- set once: its failed recipients were sent to again by hand
  worker_id   bigint,                                     -- who ended it
  constraint result_pkey primary key (day, queue_id, job_id)
) partition by range (day);

create index result_root on pushq.result (queue_id, root_id, job_id);

-- What APNs answered, in the order of time: a queue's suspects are judged by it.
create index result_answered on pushq.result (queue_id, ended_at) where delivered + rejected > 0;

-- Few: jobs with recipients that failed and were not sent to again. Every other insert passes it over.
create index result_failed on pushq.result (queue_id, job_id) where failed > 0 and retried_at is null;
create index result_failed_anywhere on pushq.result (job_id) where failed > 0 and retried_at is null;
