-- Campaigns: a message for an audience, started once under a key, which fans out into jobs while it is being sent.
--
-- The cursor and the counts are rows of their own: fan-out locks the one for a step, a job that ends updates the other.

create table pushq.campaign (
  queue_id     int         not null,
  id           bigint      not null default nextval('pushq.id'),   -- the root of its jobs
  key          text        not null,
  digest       bytea       not null,                      -- of the content: the key for anything else is refused
  message_id   bigint      not null,
  created_at   timestamptz not null default now(),
  paused_at    timestamptz,                               -- workers give its jobs back, to be set aside
  paused_reason text,                                     -- of a pause that nobody ordered
  -- It pauses itself when a larger share of its answers is bad; null: never. Those of before it was resumed do not
  -- count.
  stop_at_errors real,
  forgiven_at  timestamptz,                               -- when it was last resumed
  forgiven     bigint      not null default 0,            -- the answers until then, and the bad ones of them: without
  forgiven_bad bigint      not null default 0,            -- those that were taken back since, to be sent again
  cancelled_at timestamptz,                               -- workers end its jobs
  -- Which devices it is for, as it was written, and parsed (`pushq.parse_filter`); null: it has no filter.
  filter       text,
  filter_tree  jsonb,
  quiet_hours  text,                                      -- instead of the queue's: 22:00-08:00 or none; null: those
  constraint campaign_pkey primary key (queue_id, id),
  constraint campaign_key_once unique (queue_id, key),
  constraint campaign_key_length check (octet_length(key) between 1 and 200),
  constraint campaign_pause_has_time check (paused_reason is null or paused_at is not null),
  constraint campaign_filter_is_parsed check ((filter is null) = (filter_tree is null)),
  constraint campaign_stop_at_errors_range check (stop_at_errors >= 0 and stop_at_errors < 1)
);

-- Or the plan of a tenant's query would tell the keys of the others (views/tenant_views.sql).
alter table pushq.campaign alter column key set statistics 0;

-- The latest of all queues, for the operator.
create index campaign_latest on pushq.campaign (id);

create table pushq.fan_out (                              -- locked for a step; jobs that end never count in it
  queue_id         int         not null,
  campaign_id      bigint      not null,
  message_id       bigint      not null,
  message_day      date        not null default pushq.today(),     -- the one to which it was last brought
  list_id          bigint,                                -- the list whose members it is for; null: none
  is_for_users     boolean     not null default false,    -- the list is one of users
  start_at         timestamptz not null,
  send_by          timestamptz not null,
  -- Since it was resumed with a new `send_by`: jobs with lower ids end at that, whatever they say themselves.
  new_end_before   bigint      not null default 0,
  at_most_once     boolean     not null,
  lane             int         not null,                  -- of its jobs: 0 urgent, 2 bulk, or one of its own
  cursor_device_id bigint      not null default 0,        -- the last one seen
  last_device_id   bigint,                                -- the highest at the first step; null before it
  rest             bigint[]    not null default '{}',     -- seen, and not yet enough for a job
  made             bigint      not null default 0,        -- recipients in jobs so far
  not_made         bigint      not null default 0,        -- of a list that was cancelled: those that were in no job yet
  clock            jsonb,                                 -- of a campaign at a local time (functions/local_time.sql)
  shares           jsonb,                                 -- of one with variants or a holdout (functions/shares.sql)
  held_out         bigint      not null default 0,        -- devices of the holdout so far: they are no recipients
  sorted           boolean     not null default false,    -- into waves: `start_at` is the next one's time
  left_out         bigint      not null default 0,        -- when that was done, since they are in no wave
  -- Recipients that were due until then may have been sent to before the database was restored: they end as unknown.
  uncertain_to     timestamptz,
  paused           boolean     not null default false,
  done             boolean     not null default false,
  done_at          timestamptz,
  constraint fan_out_pkey primary key (queue_id, campaign_id),
  constraint fan_out_times_finite check (isfinite(start_at) and isfinite(send_by))
) with (fillfactor = 50);

create index fan_out_open on pushq.fan_out (queue_id, lane, start_at, campaign_id) where not done and not paused;

-- Locked by the worker that carries out a step of a queue's fan-out (functions/fan_out_step.sql). A table of its own:
-- producers lock rows of the others, perhaps for long.
create table pushq.fan_out_turn (
  queue_id int not null,
  constraint fan_out_turn_pkey primary key (queue_id)
);

-- A campaign with a rate of its own has a lane of its own, so that its jobs are found, claimed and made apart from
-- those that it must not hold up. No two of a queue have the same one (`pushq.free_lane`). The sequence begins again at
-- its end, which campaigns that are rolled back bring nearer, too.
create sequence pushq.lane as int maxvalue 715827881 cycle;
create unique index fan_out_own_lane on pushq.fan_out (queue_id, lane) where lane > 2;

-- Few: those that count against a tenant's quota of campaigns.
create index fan_out_unfinished on pushq.fan_out (queue_id) where not done;

-- The tokens or users that a campaign is for, loaded in parts of which each may be a transaction of its own: no
-- statement and no snapshot lasts as long as the whole list takes, and nothing is sent before a campaign is started
-- with it. The campaign fans out from its members as it would from all devices. Upkeep deletes them afterwards, and
-- also lists without a campaign (`pushq.lists_to_forget`).
create table pushq.list (
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  kind        text,                                       -- of the devices that unknown tokens become
  token_count bigint      not null default 0,             -- different ones; of users, those of their devices
  user_count  bigint,                                     -- different ones; null: it is of tokens
  -- The SHA-256 hashes of what it is of, xored: the same in any order and in any parts.
  digest      bit(256)    not null default repeat('0', 256)::bit(256),
  campaign_id bigint,                                     -- set: nothing is added any more
  abandoned   boolean     not null default false,         -- without a campaign: members are being deleted
  loaded_at   timestamptz not null default now(),         -- when the last part came
  constraint list_pkey primary key (queue_id, id)
) with (fillfactor = 50);

create table pushq.list_member (
  queue_id  int    not null,
  list_id   bigint not null,
  device_id bigint not null,
  constraint list_member_pkey primary key (queue_id, list_id, device_id)
);

-- The users of a list, so that each counts once, in whatever part it comes again.
create table pushq.list_user (
  queue_id int    not null,
  list_id  bigint not null,
  user_key text   not null,
  constraint list_user_pkey primary key (queue_id, list_id, user_key)
);

-- The devices that a campaign at a local time has not put into jobs yet, by the time at which they are due: each device
-- once.
create table pushq.wave (
  queue_id    int         not null,
  campaign_id bigint      not null,
  due_at      timestamptz not null,
  part        bigint      not null default nextval('pushq.id'),
  device_ids  bigint[]    not null,
  constraint wave_pkey primary key (queue_id, campaign_id, due_at, part)
);

-- The shares of a campaign with variants or a holdout: the payload is the first, and its variants follow. Each has a
-- message and jobs of its own.
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

-- Filters that were saved under a name, for campaigns to come. A campaign has what it was when the campaign started.
create table pushq.audience (
  queue_id   int         not null,
  name       text        not null,
  filter     text        not null,
  created_at timestamptz not null default now(),
  constraint audience_pkey primary key (queue_id, name),
  constraint audience_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')
);

-- Campaigns that are started again and again, as a cron expression says. A row has what each of them is: the payload,
-- and what else `pushq.start_campaign` takes, by the names of its arguments.
create table pushq.schedule (
  queue_id     int         not null,
  name         text        not null,
  cron         text        not null,                      -- when it runs, as it was written
  time_zone    text        not null,                      -- whose clocks the expression means
  after_outage text        not null,                      -- what becomes of runs that were missed
  payload      json        not null,
  options      jsonb       not null,
  created_at   timestamptz not null default now(),
  paused_at    timestamptz,
  next_at      timestamptz not null,                      -- the run that comes next, or is due
  run_at       timestamptz,                               -- the last run that a campaign was started for, …
  started_at   timestamptz,                               -- … and when that was
  missed_at    timestamptz,                               -- the last run that came too late to be started
  tried_at     timestamptz,                               -- when a run was last tried, whatever became of it
  problem      text,                                      -- why the run that is due could not be started
  failures     int         not null default 0,            -- how often in a row
  retry_at     timestamptz,                               -- when that is tried again
  constraint schedule_pkey primary key (queue_id, name),
  constraint schedule_name_form check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  constraint schedule_after_outage_known check (after_outage in ('skip', 'once', 'all')),
  constraint schedule_retry_has_problem check ((problem is null) = (retry_at is null)),
  constraint schedule_failures_have_problem check ((problem is null) = (failures = 0))
);

create index schedule_due on pushq.schedule (next_at) where paused_at is null;

-- Counts of a campaign: the sum of its rows. A worker that counts takes a row that nobody has locked, or makes a new
-- one. So there are a few of them, and no worker waits for another one, nor for a producer who retries failed
-- recipients and is slow to commit. A row is about one message: so each share of a campaign has counts of its own.
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
  retried     bigint  not null default 0,                 -- put into another job, since APNs refused or said nothing
  bad         bigint  not null default 0,                 -- those of `rejected` and `failed` that are no device's fault
  constraint campaign_tally_pkey primary key (queue_id, campaign_id, part)
) with (fillfactor = 50);
