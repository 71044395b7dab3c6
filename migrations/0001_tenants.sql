-- The senders: tenants, their apps, their APNs credentials, and their queues.
--
-- These tables are small, and an operator changes them by hand. The key of every row that a tenant owns begins with the
-- tenant or the queue, so that tenants can be spread over several databases when one server is too small
-- (docs/scaling.md).

-- Jobs, campaigns, messages, devices and sends draw their ids from one sequence. So an id in a log names one thing, and
-- a larger id was drawn later. An apns-id has 60 bits for the id. The lower 10 bits say which database of an
-- installation drew it (functions/database_number.sql), which leaves 2^50 ids for each database.
create sequence pushq.id increment 1024 minvalue 1024 maxvalue 1152921504606846975;

-- `known_start` and `known_lineage` hold digests of the server start and of the copy of the database for which
-- `pushq.id` counts. `lost_id` and `old_id` are the numbers that `pushq.id` had reached before and after it last
-- skipped ids (functions/timeline.sql). They are sequences, not rows: a change is visible to every session at once,
-- even if the transaction that made it rolls back.
create sequence pushq.known_start minvalue -9223372036854775808;
create sequence pushq.known_lineage minvalue -9223372036854775808;
create sequence pushq.lost_id minvalue 0;
create sequence pushq.old_id minvalue 0;

-- The copies of the database that have been in use, one after the other: the first one, a standby that was promoted, a
-- backup that was restored (functions/restore.sql).
create table pushq.lineage (
  id         int         generated always as identity,
  name       text        not null,                        -- `pushq.current_lineage()`
  found_at   timestamptz not null default clock_timestamp(), -- `back_to`, if that is later: a clock was wrong
  is_restore boolean     not null,                        -- the database lost what happened after `back_to`
  back_to    timestamptz,                                 -- the last moment that the copy knows of the one before
  lost_id    bigint      not null default 0,              -- ids after this one may have been drawn before, and are lost
  old_id     bigint      not null,                        -- ids up to this one were drawn in earlier copies, or skipped
  constraint lineage_pkey primary key (id),
  constraint lineage_restore_has_time check (not is_restore or back_to is not null)
);

-- The day by which history is partitioned. It is the same for every session, whatever its time zone. It is not in
-- `functions/`, because it is the default of columns.
create function pushq.today() returns date
language sql stable parallel safe as $$ select (now() at time zone 'UTC')::date $$;

create table pushq.tenant (
  id            int         generated always as identity,
  name          text        not null,
  weight        real        not null default 1,           -- its share of a worker, relative to other tenants
  connections   int,                                      -- the maximum that one worker opens; null: no limit
  suspended_at  timestamptz,                              -- set: nothing of this tenant is sent
  created_at    timestamptz not null default now(),
  history_days  int,                                      -- for results, recipients, messages; null: the default
  feedback_days int,                                      -- for feedback; null: the default
  audit_days    int,                                      -- for entries of the audit about the tenant
  key_days      int,                                      -- for idempotency keys of its sends
  constraint tenant_pkey primary key (id),
  constraint tenant_name_once unique (name),
  constraint tenant_weight_range check (weight between 0.001 and 1000),
  constraint tenant_connections_range check (connections between 1 and 10000),
  constraint tenant_name_form check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  constraint tenant_history_days_range check (history_days between 1 and 3650),
  constraint tenant_feedback_days_range check (feedback_days between 1 and 3650),
  constraint tenant_audit_days_range check (audit_days between 1 and 3650),
  constraint tenant_key_days_range check (key_days between 1 and 3650)
);

-- The maximum that a tenant may have in all its queues. A tenant without a row has no limits; a null column means no
-- limit.
create table pushq.tenant_quota (
  tenant_id     int    not null,
  max_devices   bigint,                                   -- active ones
  max_waiting   bigint,                                   -- recipients in jobs and lists that still wait
  max_day_bytes bigint,                                   -- of payloads, per day (UTC)
  max_calls     int,                                      -- of the functions for producers, per second
  max_campaigns int,                                      -- whose fan-out has not finished
  max_schedules int,                                      -- including paused ones
  constraint tenant_quota_pkey primary key (tenant_id),
  constraint tenant_quota_not_negative
    check (least(max_devices, max_waiting, max_day_bytes, max_campaigns, max_schedules, 0) = 0),
  constraint tenant_quota_calls_positive check (max_calls > 0),
  constraint tenant_quota_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- The last counted usage of tenants with quotas (`pushq.count_usage`). Producers read it and hardly ever write it. If
-- every producer updated one row, producers would wait for each other's commits. If every producer added a row, every
-- call would read all of these rows until they are folded.
--
-- A tenant has two rows, and the newer one is valid. If no worker has counted for a while, a producer counts. The
-- producer has a row of its own because its transaction may stay open for long, and must not block a worker's count.
create table pushq.tenant_usage (
  tenant_id          int         not null,
  by_producer        boolean     not null default false,  -- whether a producer counted, not a worker
  counted_at         timestamptz,                         -- null: never
  waiting            bigint      not null default 0,
  devices            bigint      not null default 0,
  devices_to         bigint      not null default 0,      -- devices with higher ids are not counted yet
  devices_counted_at timestamptz,                         -- the last count of all devices, not only of new ones
  bytes              bigint      not null default 0,
  bytes_day          date,                                -- the day of `bytes`
  bytes_to           bigint      not null default 0,      -- messages with higher ids are not counted yet
  constraint tenant_usage_pkey primary key (tenant_id, by_producer)
) with (fillfactor = 50);

-- The calls of the last seconds, for tenants with a quota for calls: a row for each call, or for one in N
-- (`pushq.count_call`). Unlogged: a crash deletes them.
create unlogged table pushq.call (
  tenant_id int         not null,
  called_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

create index call_time on pushq.call (tenant_id, called_at);

-- The names that are locked at this moment (`pushq.take_lock`). No session ever sees a row of this table. Unlogged: a
-- crash ends all locks.
create unlogged table pushq.named_lock (
  name text not null,
  constraint named_lock_pkey primary key (name)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The logins that may act for a tenant, as producers or only as readers (`pushq-admin tenant grant`). They are stored
-- by name, so a dump that is restored on another server keeps the grants.
create table pushq.tenant_login (
  login      text        not null,
  tenant_id  int         not null,
  read_only  boolean     not null default false,
  granted_at timestamptz not null default now(),
  constraint tenant_login_pkey primary key (login, tenant_id),
  constraint tenant_login_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- The URL that receives a tenant's feedback. For a tenant without a row, nothing is sent.
create table pushq.webhook (
  tenant_id     int         not null,
  url           text        not null,
  sealed        bytea       not null,                     -- the secret that signs messages; AES-256-GCM
  former_sealed bytea,                                    -- the previous secret: it also signs messages …
  former_until  timestamptz,                              -- … until this time
  created_at    timestamptz not null default now(),
  constraint webhook_pkey primary key (tenant_id),
  constraint webhook_url_form check (url ~ '^https?://[!-~]+$' and octet_length(url) <= 2000),
  constraint webhook_former_has_end check ((former_sealed is null) = (former_until is null)),
  constraint webhook_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- The progress of a webhook. Workers write it; it contains no settings.
create table pushq.webhook_progress (
  tenant_id     int         not null,
  cursor        bigint      not null,                     -- the receiver has accepted all reports up to this one
  newest        bigint      not null,                     -- the last report that was listed for the tenant
  batch_to      bigint,                                   -- the last report in the message that was sent last
  taken_until   timestamptz,                              -- a worker may be sending it until then; null: no worker
  turn          bigint      not null default 0,           -- of the last try: only its result is recorded
  not_before    timestamptz not null default now(),       -- no try before: a worker is sending, or a try failed
  failures      int         not null default 0,           -- in a row
  failing_since timestamptz,
  problem       text,                                     -- the error of the last failure
  delivered_at  timestamptz,                              -- when the receiver last accepted a message
  lost_to       timestamptz,                              -- the receiver never got some of the reports up to then
  constraint webhook_progress_pkey primary key (tenant_id),
  constraint webhook_progress_webhook_exists foreign key (tenant_id) references pushq.webhook (tenant_id)
    on delete cascade
) with (fillfactor = 50);

create table pushq.app (
  tenant_id  int         not null,
  id         int         generated always as identity,
  bundle_id  text        not null,
  created_at timestamptz not null default now(),
  constraint app_pkey primary key (tenant_id, id),
  constraint app_id_once unique (id),
  constraint app_bundle_once unique (tenant_id, bundle_id),
  constraint app_bundle_form check (
    bundle_id ~ '^[A-Za-z0-9][A-Za-z0-9-]*([.][A-Za-z0-9-]+)*$' and length(bundle_id) <= 155),
  constraint app_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

create table pushq.credential (
  tenant_id    int         not null,
  id           int         generated always as identity,
  name         text        not null,
  kind         text        not null,
  version      int         not null default 1,            -- grows with each replacement, and resume after a refusal
  team_id      text,
  key_id       text,                                      -- of a signing key
  topics       text[]      not null default '{}',         -- of a certificate; empty: all topics of the team
  environments text[]      not null,
  fingerprint  bytea,                                     -- of a certificate, SHA-256
  not_after    timestamptz,                               -- of a certificate; a signing key does not expire
  warned_days  smallint,                                  -- the last warning came this many days before not_after
  sealed       bytea       not null,                      -- AES-256-GCM under the master key
  created_at   timestamptz not null default now(),
  replaced_at  timestamptz,
  constraint credential_pkey primary key (tenant_id, id),
  constraint credential_id_once unique (id),
  constraint credential_name_once unique (tenant_id, name),
  constraint credential_kind_known check (kind in ('token', 'certificate')),
  constraint credential_token_whole check (kind <> 'token' or (team_id is not null and key_id is not null)),
  constraint credential_certificate_whole check (kind <> 'certificate' or fingerprint is not null),
  constraint credential_environments_known
    check (environments <@ array['production', 'sandbox'] and cardinality(environments) > 0),
  constraint credential_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- The current provider token of each signer. One worker creates it and the fleet shares it, because Apple answers
-- TooManyProviderTokenUpdates if every process creates its own. A signer is a digest of the public key, the team ID and
-- the key ID. So credentials with the same key share a token, and a tenant that enters the key ID of another tenant's
-- key does not get that tenant's token.
create table pushq.provider_token (
  signer     bytea       not null,
  sealed     bytea       not null,
  issued_at  timestamptz not null,
  keep_until timestamptz,                                 -- after APNs' TooManyProviderTokenUpdates
  constraint provider_token_pkey primary key (signer),
  constraint provider_token_signer_length check (octet_length(signer) = 32)
);

create table pushq.queue (
  tenant_id                 int         not null,
  id                        int         generated always as identity,
  app_id                    int         not null,
  environment               text        not null,
  credential_id             int,
  weight                    real        not null default 1,    -- its share of its tenant's part of a worker
  connections               smallint    not null default 4,    -- the maximum per worker
  max_attempts              smallint    not null default 10,   -- the recipient fails after this many answers
  gateway                   text        not null default 'http2', -- the interface of APNs
  feedback_every            interval    not null default '1 day', -- between two reads of the feedback service
  derive_collapse_id        boolean     not null default true, -- of an alert without one: use the apns-id
  paused_at                 timestamptz,
  paused_reason             text,
  paused_credential_version int,                               -- the pause ends when a later version is in use
  credential_refusals       smallint    not null default 0,    -- such pauses in a row: ever longer until the next try
  resumed_at                timestamptz,                       -- earlier answers are no evidence against a device
  created_at                timestamptz not null default now(),
  constraint queue_pkey primary key (tenant_id, id),
  constraint queue_id_once unique (id),
  constraint queue_app_environment_once unique (tenant_id, app_id, environment),
  constraint queue_environment_known check (environment in ('production', 'sandbox')),
  constraint queue_gateway_known check (gateway in ('http2', 'binary')),
  constraint queue_feedback_every_range check (feedback_every between interval '1 minute' and interval '30 days'),
  constraint queue_weight_range check (weight between 0.001 and 1000),
  constraint queue_connections_range check (connections between 1 and 100),
  constraint queue_max_attempts_range check (max_attempts between 1 and 100),
  constraint queue_pause_has_reason check ((paused_at is null) = (paused_reason is null)),
  constraint queue_app_exists foreign key (tenant_id, app_id) references pushq.app (tenant_id, id),
  constraint queue_credential_exists foreign key (tenant_id, credential_id) references pushq.credential (tenant_id, id)
);

-- Queues that are paused since the database was restored, because their waiting pushes may have been sent already. An
-- operator has to decide about each. The row stores how the queue was paused before, to restore that state.
create table pushq.restored_queue (
  queue_id                  int         not null,
  lineage_id                int         not null,         -- the restore
  paused_at                 timestamptz,
  paused_reason             text,
  paused_credential_version int,
  credential_id             int,                          -- the queue's own credential at that time
  constraint restored_queue_pkey primary key (queue_id),
  constraint restored_queue_lineage_exists foreign key (lineage_id) references pushq.lineage (id)
);

-- Rate limits (GCRA) for all queues of a tenant together, for a queue, or for a campaign. No row means no limit. Each
-- push takes a permit of every limit that applies to it (`pushq.take_permits`). The key goes from the outer limit to
-- the inner one; 0 stands for the whole tenant or the whole queue.
create table pushq.rate_limit (
  tenant_id   int         not null,
  queue_id    int         not null default 0,
  campaign_id bigint      not null default 0,
  rate        float8      not null,                       -- permits per second
  burst       float8      not null,                       -- permits that may be used at once after a quiet time
  -- The time at which the next permit would be due if all granted so far were used on time.
  tat         timestamptz not null default now(),
  constraint rate_limit_pkey primary key (tenant_id, queue_id, campaign_id),
  constraint rate_limit_rate_positive check (rate between 0.0001 and 1000000),
  constraint rate_limit_burst_positive check (burst >= 1 and burst <= 1000000),
  constraint rate_limit_campaign_has_queue check (queue_id <> 0 or campaign_id = 0)
) with (fillfactor = 50);

-- Frequency caps: the maximum number of pushes that a device of a queue gets in a period (functions/frequency_cap.sql).
-- A queue without a row has no cap.
create table pushq.frequency_cap (
  queue_id        int         not null,
  pushes          smallint    not null,
  period          interval,                               -- null: a calendar day, in the device's time zone
  includes_urgent boolean     not null default false,     -- urgent pushes count and wait like others
  time_zone       text,                                   -- for devices without a known time zone; null: UTC
  set_at          timestamptz not null default now(),     -- when it was last changed
  constraint frequency_cap_pkey primary key (queue_id),
  constraint frequency_cap_pushes_range check (pushes between 1 and 100),
  constraint frequency_cap_period_range check (period between interval '1 minute' and interval '31 days')
);

-- Quiet hours: the times of day, in a device's time zone, at which a queue sends it no alert
-- (functions/quiet_hours.sql). A queue without a row has none.
create table pushq.quiet_hours (
  queue_id        int         not null,
  hours           text        not null,                   -- such as 22:00-08:00
  release         interval    not null default '15 minutes', -- waiting pushes are spread over it
  includes_urgent boolean     not null default false,     -- urgent pushes wait like others
  time_zone       text,                                   -- for devices without one; null: they get every push
  set_at          timestamptz not null default now(),     -- when it was last changed
  constraint quiet_hours_pkey primary key (queue_id),
  constraint quiet_hours_form check (hours ~ E'^\\d\\d:\\d\\d(:\\d\\d)?-\\d\\d:\\d\\d(:\\d\\d)?$'),
  constraint quiet_hours_release_range check (release between interval '0' and interval '2 hours')
);

-- The queues of removed apps and tenants. They accept and send nothing. Their contents may be millions of rows, which
-- are deleted in steps: by the command that removed the app or tenant, and if that is interrupted, by the same command
-- again or by upkeep.
create table pushq.removed_queue (
  queue_id   int         not null,
  tenant     text        not null,                        -- its name
  removed_at timestamptz not null default now(),
  constraint removed_queue_pkey primary key (queue_id)
);

-- Tenants that are moving between two databases, and tenants that have left (functions/move_tenant.sql). Each of the
-- two databases has a row. The numbers in it do not refer to existing rows, unlike `tenant_id` and `queue_id` in other
-- tables.
create table pushq.tenant_move (
  tenant        text        not null,
  id            uuid        not null,                     -- the same in both databases
  leaves        boolean     not null,                     -- the tenant leaves this database
  stage         text        not null,
  peer          text        not null,                     -- the other database, without a password
  owner         int,                                      -- in the database that it leaves: the tenant's number
  queues        int[]       not null default '{}',        -- whose contents are here and belong to no queue
  ids           jsonb       not null default '{}',        -- where it arrives: table -> number there -> number here
  noted         int[]       not null default '{}',        -- where it leaves: queues whose changes go to `moved_row`
  suspended_at  timestamptz,                              -- the tenant's value before the move stopped it
  settings      json,                                     -- of a detached tenant: table -> rows
  logins        text[]      not null default '{}',        -- these logins may be told the new database
  history_days  int,                                      -- copied from `tenant`, so that its days are kept
  feedback_days int,
  reports_held_until timestamptz,                         -- where it leaves: its webhook waits until then
  changed_at    timestamptz not null default clock_timestamp(),
  lineage_id    int         not null,                     -- the newest `lineage` when `changed_at` was written
  constraint tenant_move_pkey primary key (tenant),
  constraint tenant_move_stage_known check (
    stage in ('copying', 'stopping', 'detached', 'moved') and leaves or stage in ('copying', 'arrived') and not leaves),
  constraint tenant_move_has_settings check ((stage = 'detached') = (settings is not null))
);

-- The sessions that are moving tenants now, and those that were lost while they did (functions/mover.sql).
create table pushq.mover (
  tenant     text        not null,
  pid        int         not null,                        -- of the server's process
  role       oid         not null,                        -- its login
  started_at timestamptz not null,                        -- when the session connected
  constraint mover_pkey primary key (tenant)
);

-- The rows of moving tenants that were changed after they were copied, in the order of the changes. As in
-- `tenant_move`, the numbers do not refer to existing rows.
create table pushq.moved_row (
  id    bigint generated always as identity,
  owner int    not null,                                  -- the tenant: `tenant_move.owner`
  name  text   not null,                                  -- the table
  queue int    not null,
  key   text   not null,                                  -- the key's columns after the queue, as an array
  constraint moved_row_pkey primary key (owner, id)
);
