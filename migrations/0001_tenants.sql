-- Who sends: tenants, their apps, the credentials that APNs knows them by, and the queues.
--
-- Small tables that an operator changes by hand. Every row that a tenant owns carries the tenant's or the queue's key
-- first, so that tenants can be shared out among databases once one server is outgrown (docs/scaling.md).

-- Jobs, campaigns, messages, devices and sends draw their ids from one sequence, so that an id means one thing in a
-- log, and the larger number is the later one. apns-id has 60 bits for it, of which the lower 10 say which database of
-- an installation drew it (functions/database_number.sql): 2^50 are left to each.
create sequence pushq.id increment 1024 minvalue 1024 maxvalue 1152921504606846975;

-- For which server and copy of the database `pushq.id` counts, as digests, and the number up to which it had counted
-- when it last skipped some (functions/timeline.sql). Sequences and not rows: what they say holds for everybody at
-- once, whatever becomes of the transaction that has set it.
create sequence pushq.known_start minvalue -9223372036854775808;
create sequence pushq.known_lineage minvalue -9223372036854775808;
create sequence pushq.old_id minvalue 0;

-- The copies of the database that have been in use, one after the other: the first one, a standby that was promoted, a
-- backup that was restored (functions/restore.sql).
create table pushq.lineage (
  id         int         generated always as identity,
  name       text        not null,                        -- `pushq.current_lineage()`
  found_at   timestamptz not null default clock_timestamp(),
  is_restore boolean     not null,                        -- time went back: what happened since is not in it
  back_to    timestamptz,                                 -- the last moment of the copy before that it knows of
  old_id     bigint      not null,                        -- identifiers up to it were drawn in earlier copies
  constraint lineage_pkey primary key (id),
  constraint lineage_restore_has_time check (not is_restore or back_to is not null)
);

-- The day by which history is partitioned: the same for every session, whatever its time zone. Not in `functions/`,
-- because columns have it as their default.
create function pushq.today() returns date
language sql stable parallel safe as $$ select (now() at time zone 'UTC')::date $$;

create table pushq.tenant (
  id            int         generated always as identity,
  name          text        not null,
  weight        real        not null default 1,           -- its share of a worker, against other tenants
  connections   int,                                      -- the most that one worker opens for it; null: no limit
  suspended_at  timestamptz,                              -- set: nothing of this tenant is sent
  created_at    timestamptz not null default now(),
  history_days  int,                                      -- of results, recipients, messages; null: the default
  feedback_days int,                                      -- the same for feedback
  audit_days    int,                                      -- of entries of the audit about it
  key_days      int,                                      -- of idempotency keys of its sends
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

-- What a tenant may have at most, over all its queues. Without a row, and where a column is null, there is no limit.
create table pushq.tenant_quota (
  tenant_id     int    not null,
  max_devices   bigint,                                   -- active ones
  max_waiting   bigint,                                   -- recipients in jobs and lists that are still to be sent to
  max_day_bytes bigint,                                   -- of payloads, in a day (UTC)
  max_calls     int,                                      -- of the functions for producers, in a second
  max_campaigns int,                                      -- that have not put all recipients into jobs yet
  max_schedules int,                                      -- paused ones, too
  constraint tenant_quota_pkey primary key (tenant_id),
  constraint tenant_quota_not_negative
    check (least(max_devices, max_waiting, max_day_bytes, max_campaigns, max_schedules, 0) = 0),
  constraint tenant_quota_calls_positive check (max_calls > 0),
  constraint tenant_quota_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- What tenants with quotas have, as it was last counted (`pushq.count_usage`). Producers read it and hardly ever write:
-- a row that each of them updated would make them wait for one another's commit, and a row that each of them added
-- would be read by all calls until it is folded.
--
-- A tenant has two rows, of which the newer one is valid. When no worker has counted for a while, a producer does, in a
-- transaction that may stay open for as long as it likes: it must not keep workers from counting.
create table pushq.tenant_usage (
  tenant_id          int         not null,
  by_producer        boolean     not null default false,  -- who counted: a worker, or a producer
  counted_at         timestamptz,                         -- null: never
  waiting            bigint      not null default 0,
  devices            bigint      not null default 0,
  devices_to         bigint      not null default 0,      -- those with higher ids have not been counted
  devices_counted_at timestamptz,                         -- when all were counted, and not only new ones
  bytes              bigint      not null default 0,
  bytes_day          date,                                -- the day that they are of
  bytes_to           bigint      not null default 0,      -- messages with higher ids have not been counted
  constraint tenant_usage_pkey primary key (tenant_id, by_producer)
) with (fillfactor = 50);

-- Calls of the last seconds, of tenants with a quota for them: each, or one in so many (`pushq.count_call`). Unlogged:
-- a crash forgets them.
create unlogged table pushq.call (
  tenant_id int         not null,
  called_at timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

create index call_time on pushq.call (tenant_id, called_at);

-- Names that are locked at this moment (`pushq.take_lock`): nobody sees a row of it. Unlogged: a crash ends all locks.
create unlogged table pushq.named_lock (
  name text not null,
  constraint named_lock_pkey primary key (name)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The logins that may act for a tenant: as producers, or only to read (`pushq-admin tenant grant`). By name, so
-- that a dump that is restored on another server still says who may.
create table pushq.tenant_login (
  login      text        not null,
  tenant_id  int         not null,
  read_only  boolean     not null default false,
  granted_at timestamptz not null default now(),
  constraint tenant_login_pkey primary key (login, tenant_id),
  constraint tenant_login_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- Where a tenant has reports about its devices sent to. A tenant without a row has none sent.
create table pushq.webhook (
  tenant_id     int         not null,
  url           text        not null,
  sealed        bytea       not null,                     -- the secret that messages are signed with; AES-256-GCM
  former_sealed bytea,                                    -- the one before it: messages are signed with both …
  former_until  timestamptz,                              -- … until then
  created_at    timestamptz not null default now(),
  constraint webhook_pkey primary key (tenant_id),
  constraint webhook_url_form check (url ~ '^https?://[!-~]+$' and octet_length(url) <= 2000),
  constraint webhook_former_has_end check ((former_sealed is null) = (former_until is null)),
  constraint webhook_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

-- How far a webhook has got: what workers write of it, and no setting.
create table pushq.webhook_progress (
  tenant_id     int         not null,
  cursor        bigint      not null,                     -- the receiver has taken all reports up to this one
  newest        bigint      not null,                     -- the last report that was listed for the tenant
  batch_to      bigint,                                   -- up to which report the message goes that was sent last
  taken_until   timestamptz,                              -- till then a worker may be sending it; null: none is
  turn          bigint      not null default 0,           -- of the last try: only that one is written down
  not_before    timestamptz not null default now(),       -- not tried till then: a worker is at it, or it has failed
  failures      int         not null default 0,           -- in a row
  failing_since timestamptz,
  problem       text,                                     -- of the last of them
  delivered_at  timestamptz,                              -- when the receiver last took something
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
  constraint app_bundle_form check (bundle_id ~ '^[A-Za-z0-9.-]{1,155}$'),
  constraint app_tenant_exists foreign key (tenant_id) references pushq.tenant (id)
);

create table pushq.credential (
  tenant_id    int         not null,
  id           int         generated always as identity,
  name         text        not null,
  kind         text        not null,
  version      int         not null default 1,            -- grows when it is replaced
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

-- The current provider token of each signer, minted by one worker and shared by the fleet: Apple answers
-- TooManyProviderTokenUpdates to fleets that mint one per process. A signer is a digest of public key, team and key
-- ID: credentials with one key share its token, and naming the key ID of another tenant's key gives no access to that
-- tenant's token.
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
  weight                    real        not null default 1,    -- its share of what its tenant has of a worker
  connections               smallint    not null default 4,    -- the maximum for one worker
  max_attempts              smallint    not null default 10,   -- answers per recipient before it has failed
  gateway                   text        not null default 'http2', -- the interface of APNs that it is sent over
  feedback_every            interval    not null default '1 day', -- between two reads of the feedback service
  derive_collapse_id        boolean     not null default true, -- where an alert has none: the apns-id
  paused_at                 timestamptz,
  paused_reason             text,
  paused_credential_version int,                               -- the pause ends with this version
  resumed_at                timestamptz,                       -- answers from before are no evidence against a device
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

-- Queues about which an operator has to decide since the database was restored, because what waits in them may have
-- been sent already: paused until then. How the queue was paused before that, if it was, is how it will be again.
create table pushq.restored_queue (
  queue_id                  int         not null,
  lineage_id                int         not null,         -- the restore
  paused_at                 timestamptz,
  paused_reason             text,
  paused_credential_version int,
  credential_id             int,                          -- the queue's own at that time
  constraint restored_queue_pkey primary key (queue_id),
  constraint restored_queue_lineage_exists foreign key (lineage_id) references pushq.lineage (id)
);

-- Rate limits (GCRA): of all queues of a tenant together, of a queue, of a campaign. What has no row here is not
-- limited by it. Each push takes a permit of every limit that it is subject to (`pushq.take_permits`). The key goes
-- from the outer limit to the inner one; 0: of the tenant, or of the queue, as a whole.
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

-- Frequency caps: how many pushes a device of a queue gets at most in a period (functions/frequency_cap.sql). A queue
-- without a row has none.
create table pushq.frequency_cap (
  queue_id        int         not null,
  pushes          smallint    not null,
  period          interval,                               -- null: a calendar day, in the device's time zone
  includes_urgent boolean     not null default false,     -- urgent pushes are counted and held back like others
  time_zone       text,                                   -- of devices of which nobody has said one; null: UTC
  set_at          timestamptz not null default now(),     -- when it was last changed
  constraint frequency_cap_pkey primary key (queue_id),
  constraint frequency_cap_pushes_range check (pushes between 1 and 100),
  constraint frequency_cap_period_range check (period between interval '1 minute' and interval '31 days')
);

-- Quiet hours: at which times of the day, by the clocks where a device is, a queue sends it no alert
-- (functions/quiet_hours.sql). A queue without a row has none.
create table pushq.quiet_hours (
  queue_id        int         not null,
  hours           text        not null,                   -- such as 22:00-08:00
  release         interval    not null default '15 minutes', -- over which those who waited are spread, from the end on
  includes_urgent boolean     not null default false,     -- urgent pushes wait like others
  time_zone       text,                                   -- of devices of which nobody has said one; null: they get all
  set_at          timestamptz not null default now(),     -- when it was last changed
  constraint quiet_hours_pkey primary key (queue_id),
  constraint quiet_hours_form check (hours ~ E'^\\d\\d:\\d\\d(:\\d\\d)?-\\d\\d:\\d\\d(:\\d\\d)?$'),
  constraint quiet_hours_release_range check (release between interval '0' and interval '2 hours')
);

-- Queues of apps and tenants that were removed. Nothing is accepted for them or sent any more. What they held may be
-- millions of rows, and is deleted in steps: by the command that removed them and, if that is interrupted, by the same
-- command again, or by upkeep.
create table pushq.removed_queue (
  queue_id   int         not null,
  tenant     text        not null,                        -- by name
  removed_at timestamptz not null default now(),
  constraint removed_queue_pkey primary key (queue_id)
);

-- Tenants on their way between two databases, and those that have left (functions/move_tenant.sql): a row in each of
-- the two. Numbers in it are no keys of rows that are there, as `tenant_id` and `queue_id` are elsewhere.
create table pushq.tenant_move (
  tenant        text        not null,
  id            uuid        not null,                     -- the same in both
  leaves        boolean     not null,                     -- this is the one that it leaves
  stage         text        not null,
  peer          text        not null,                     -- the other one, without a password
  owner         int,                                      -- where it leaves: its number
  queues        int[]       not null default '{}',        -- whose contents are here, and are of no queue
  ids           jsonb       not null default '{}',        -- where it arrives: table -> number there -> number here
  noted         int[]       not null default '{}',        -- where it leaves: queues whose changes are in `moved_row`
  suspended_at  timestamptz,                              -- as it was before it was stopped
  settings      json,                                     -- of a detached tenant: table -> rows
  logins        text[]      not null default '{}',        -- may be told where it is
  history_days  int,                                      -- as `tenant` has them: its days are not to be dropped
  feedback_days int,
  reports_held_until timestamptz,                         -- where it leaves: its webhook waits till then
  begun_at      timestamptz not null default clock_timestamp(),
  changed_at    timestamptz not null default clock_timestamp(),
  constraint tenant_move_pkey primary key (tenant),
  constraint tenant_move_stage_known check (
    stage in ('copying', 'stopping', 'detached', 'moved') and leaves or stage in ('copying', 'arrived') and not leaves),
  constraint tenant_move_has_settings check ((stage = 'detached') = (settings is not null))
);

-- The sessions that move tenants at this moment, and those that were lost at it (functions/mover.sql).
create table pushq.mover (
  tenant     text        not null,
  pid        int         not null,                        -- of the server's process
  role       oid         not null,                        -- its login
  started_at timestamptz not null,                        -- when it has connected
  constraint mover_pkey primary key (tenant)
);

-- Rows of a tenant on its way that were changed since they were copied, in the order in which they were changed. As in
-- `tenant_move`, numbers are no keys of rows that are there.
create table pushq.moved_row (
  id    bigint generated always as identity,
  owner int    not null,                                  -- whose it is: `tenant_move.owner`
  name  text   not null,                                  -- of the table
  queue int    not null,
  key   text   not null,                                  -- the columns of its key behind the queue, as an array
  constraint moved_row_pkey primary key (owner, id)
);
