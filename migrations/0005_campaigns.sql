-- Campaigns: a message for an audience, started once under a key, which fans out into jobs while it is being sent.
--
-- The cursor and the counts are separate rows: a step of the fan-out locks the cursor, and the end of a job updates the
-- counts.

create table pushq.campaign (
  queue_id     int         not null,
  id           bigint      not null default nextval('pushq.id'),   -- the root of its jobs
  key          text        not null,
  digest       bytea       not null,                      -- of the content: the key is refused for other content
  message_id   bigint      not null,
  created_at   timestamptz not null default now(),
  paused_at    timestamptz,                               -- workers give its jobs back, which then wait
  paused_reason text,                                     -- of an automatic pause
  -- The campaign pauses itself when a larger share of its answers is bad; null: never. Answers from before it was
  -- resumed do not count.
  stop_at_errors real,
  forgiven_at  timestamptz,                               -- when it was last resumed
  forgiven     bigint      not null default 0,            -- the answers until then, and the bad ones among them,
  forgiven_bad bigint      not null default 0,            -- without those that were retried by hand since
  cancelled_at timestamptz,                               -- workers end its jobs
  -- The filter for its devices, as written and as parsed (`pushq.parse_filter`); null: none.
  filter       text,
  filter_tree  jsonb,
  quiet_hours  text,                                      -- its own: 22:00-08:00 or none; null: the queue's
  constraint campaign_pkey primary key (queue_id, id),
  constraint campaign_key_once unique (queue_id, key),
  constraint campaign_key_length check (octet_length(key) between 1 and 200),
  constraint campaign_pause_has_time check (paused_reason is null or paused_at is not null),
  constraint campaign_filter_is_parsed check ((filter is null) = (filter_tree is null)),
  constraint campaign_stop_at_errors_range check (stop_at_errors >= 0 and stop_at_errors < 1)
);

-- With statistics, the plan of a tenant's query would reveal the keys of other tenants (views/tenant_views.sql).
alter table pushq.campaign alter column key set statistics 0;

-- The latest campaigns of all queues, for the operator.
create index campaign_latest on pushq.campaign (id);

create table pushq.fan_out (                              -- a step locks it; jobs that end do not update it
  queue_id         int         not null,
  campaign_id      bigint      not null,
  message_id       bigint      not null,
  message_day      date        not null default pushq.today(),     -- the day that its message was last copied to
  list_id          bigint,                                -- the list that it is for; null: none
  is_for_users     boolean     not null default false,    -- the list is of users
  start_at         timestamptz not null,
  send_by          timestamptz not null,
  -- Set when the campaign is resumed with a new `send_by`: jobs with lower ids end at `send_by` here, not at their own.
  new_end_before   bigint      not null default 0,
  at_most_once     boolean     not null,
  lane             int         not null,                  -- of its jobs: 0 urgent, 2 bulk, or its own lane
  cursor_device_id bigint      not null default 0,        -- the last device seen
  last_device_id   bigint,                                -- the highest at the first step; null before
  rest             bigint[]    not null default '{}',     -- seen, but too few for a job yet
  made             bigint      not null default 0,        -- recipients in jobs so far
  not_made         bigint      not null default 0,        -- of a cancelled list: recipients that were in no job yet
  clock            jsonb,                                 -- if at a local time (functions/local_time.sql)
  shares           jsonb,                                 -- if with variants or a holdout (functions/shares.sql)
  held_out         bigint      not null default 0,        -- devices of the holdout so far: not recipients
  sorted           boolean     not null default false,    -- into waves: `start_at` is the next wave's time
  left_out         bigint      not null default 0,        -- devices left out while sorting: they are in no wave
  -- Pushes that were due until then may have been sent before the database was restored: their recipients end as
  -- unknown.
  uncertain_to     timestamptz,
  paused           boolean     not null default false,
  done             boolean     not null default false,
  done_at          timestamptz,
  constraint fan_out_pkey primary key (queue_id, campaign_id),
  constraint fan_out_times_finite check (isfinite(start_at) and isfinite(send_by))
) with (fillfactor = 50);

create index fan_out_open on pushq.fan_out (queue_id, lane, start_at, campaign_id) where not done and not paused;

-- The row is locked by the worker that carries out a step of a queue's fan-out (functions/fan_out_step.sql). It is a
-- table of its own, because producers lock rows of the other tables, perhaps for long.
create table pushq.fan_out_turn (
  queue_id int not null,
  constraint fan_out_turn_pkey primary key (queue_id)
);

-- A campaign with its own rate has its own lane, so that its jobs are created, found and claimed apart from jobs that
-- it must not hold up. No two campaigns of a queue have the same lane of their own (`pushq.free_lane`). The sequence
-- starts again after its end; campaigns that are rolled back use up numbers, too.
create sequence pushq.lane as int maxvalue 715827881 cycle;
create unique index fan_out_own_lane on pushq.fan_out (queue_id, lane) where lane > 2;

-- The few campaigns that count against a tenant's quota.
create index fan_out_unfinished on pushq.fan_out (queue_id) where not done;

-- The tokens or users that a campaign is for. They are loaded in parts, each perhaps in a transaction of its own: no
-- statement or snapshot lasts as long as loading the whole list, and nothing is sent before a campaign is started with
-- the list. The campaign fans out from the members as it would from all devices. Upkeep deletes the members afterwards,
-- and also lists without a campaign (`pushq.lists_to_forget`).
create table pushq.list (
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  kind        text,                                       -- of devices that are created for unknown tokens
  token_count bigint      not null default 0,             -- distinct tokens; of users: those of their devices
  user_count  bigint,                                     -- distinct users; null: the list is of tokens
  -- The xor of the SHA-256 hashes of the list's tokens or users: the same for any order and any parts.
  digest      bit(256)    not null default repeat('0', 256)::bit(256),
  campaign_id bigint,                                     -- set: the list accepts no more parts
  abandoned   boolean     not null default false,         -- it has no campaign: its members are being deleted
  loaded_at   timestamptz not null default now(),         -- when the last part was loaded
  constraint list_pkey primary key (queue_id, id)
) with (fillfactor = 50);

create table pushq.list_member (
  queue_id  int    not null,
  list_id   bigint not null,
  device_id bigint not null,
  constraint list_member_pkey primary key (queue_id, list_id, device_id)
);

-- The users of a list. A user that appears in several parts counts once.
create table pushq.list_user (
  queue_id int    not null,
  list_id  bigint not null,
  user_key text   not null,
  constraint list_user_pkey primary key (queue_id, list_id, user_key)
);

-- The devices of a campaign at a local time that are in no job yet, by the time at which they are due. Each device is
-- here once.
create table pushq.wave (
  queue_id    int         not null,
  campaign_id bigint      not null,
  due_at      timestamptz not null,
  part        bigint      not null default nextval('pushq.id'),
  device_ids  bigint[]    not null,
  constraint wave_pkey primary key (queue_id, campaign_id, due_at, part)
);

-- The shares of a campaign with variants or a holdout: first the payload, then its variants. Each share has its own
-- message and jobs.
create table pushq.campaign_share (
  queue_id    int      not null,
  campaign_id bigint   not null,
  place       smallint not null,                          -- from 1
  name        text     not null,
  fraction    numeric  not null,
  message_id  bigint   not null,
  made        bigint   not null default 0,                -- recipients in jobs so far
  constraint campaign_share_pkey primary key (queue_id, campaign_id, place),
  constraint campaign_share_name_once unique (queue_id, campaign_id, name),
  constraint campaign_share_fraction_range check (fraction > 0 and fraction <= 1)
) with (fillfactor = 50);

-- Saved filters for later campaigns. A campaign keeps the filter as it was when the campaign started.
create table pushq.audience (
  queue_id   int         not null,
  name       text        not null,
  filter     text        not null,
  created_at timestamptz not null default now(),
  constraint audience_pkey primary key (queue_id, name),
  constraint audience_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')
);

-- Campaigns that workers start repeatedly by a cron expression. A row holds what each run is started with: the payload,
-- and the other arguments of `pushq.start_campaign` by name.
create table pushq.schedule (
  queue_id     int         not null,
  name         text        not null,
  cron         text        not null,                      -- when it runs, as written
  time_zone    text        not null,                      -- the time zone of the expression
  after_outage text        not null,                      -- what happens to missed runs
  payload      json        not null,
  options      jsonb       not null,
  created_at   timestamptz not null default now(),
  paused_at    timestamptz,
  next_at      timestamptz not null,                      -- the run that is due, or the next one
  run_at       timestamptz,                               -- the last run for which a campaign was started, …
  started_at   timestamptz,                               -- … and when it was started
  missed_at    timestamptz,                               -- the last run that was too late to start
  tried_at     timestamptz,                               -- the last try to start a run, successful or not
  problem      text,                                      -- why the due run could not be started
  failures     int         not null default 0,            -- how often in a row
  retry_at     timestamptz,                               -- when the due run is tried again
  constraint schedule_pkey primary key (queue_id, name),
  constraint schedule_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  constraint schedule_after_outage_known check (after_outage in ('skip', 'once', 'all')),
  constraint schedule_retry_has_problem check ((problem is null) = (retry_at is null)),
  constraint schedule_failures_have_problem check ((problem is null) = (failures = 0))
);

create index schedule_due on pushq.schedule (next_at) where paused_at is null;

-- The counts of a campaign: the sum of its rows. A worker that counts takes a row that no session has locked, or adds
-- one. So a campaign has few rows, and no worker waits for another worker, or for a producer that retries failed
-- recipients and is slow to commit. A row belongs to one message, so each share of a campaign has its own counts.
create table pushq.campaign_tally (
  queue_id    int     not null,
  campaign_id bigint  not null,
  part        bigint  not null default 0,
  message_id  bigint  not null,
  delivered   bigint  not null default 0,
  rejected    bigint  not null default 0,
  failed      bigint  not null default 0,
  suppressed  bigint  not null default 0,
  expired     bigint  not null default 0,
  cancelled   bigint  not null default 0,
  unknown     bigint  not null default 0,
  retried     bigint  not null default 0,                 -- continue in another job: APNs refused or did not answer
  bad         bigint  not null default 0,                 -- of `rejected` and `failed`: not a device's fault
  constraint campaign_tally_pkey primary key (queue_id, campaign_id, part)
) with (fillfactor = 50);
