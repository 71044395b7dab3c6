-- What is remembered about sends beside their jobs. Upkeep deletes old rows in batches.

-- Idempotency keys of sends. A plain table, never an index on a hot one.
create table pushq.send_key (
  queue_id   int         not null,
  key        text        not null,
  root_id    bigint      not null,
  digest     bytea       not null,                        -- of the content: the key for anything else is refused
  due_at     timestamptz not null,                        -- when its send was due: it is forgotten some days after that
  constraint send_key_pkey primary key (queue_id, key),
  constraint send_key_length check (octet_length(key) between 1 and 200)
);

-- By queue, since each tenant keeps its keys for a time of its own.
create index send_key_age on pushq.send_key (queue_id, due_at);

-- Sends that reached nobody, and why: without a recipient there is no job that would tell. A producer's transaction
-- must not fail for it, because its order does not depend on whether a user has a device.
create table pushq.empty_send (
  queue_id   int         not null,
  root_id    bigint      not null,
  why        text        not null,
  created_at timestamptz not null default now(),
  constraint empty_send_pkey primary key (queue_id, root_id)
);

create index empty_send_age on pushq.empty_send (created_at);

-- What was cancelled: a worker that holds or claims a job ends it if a row names the job or its root. So a recipient
-- that is sent to again in another job is stopped, too. A table of its own: producers hold its rows locked until they
-- commit, and workers only read it.
create table pushq.cancelled (
  queue_id   int         not null,
  id         bigint      not null,                        -- of a send, a broadcast or a job
  due_at     timestamptz not null default now(),          -- when it was cancelled, or due, if that was later
  constraint cancelled_pkey primary key (queue_id, id)
);

-- As for keys: a repeated call is warned of a cancellation as long as its key is kept.
create index cancelled_age on pushq.cancelled (queue_id, due_at);

-- Updates of Live Activities that replace older ones, by channel or device: once a row is due, a worker that claims
-- an update that was due before it suppresses that update. Nothing is looked for when an update is queued. Whatever
-- way an older one comes back from, a retry or a rescue, it meets this row. A scheduled update waits here beside
-- those that are due. A table of its own, of which nobody waits for a row: workers only read it.
create table pushq.newest_update (
  queue_id     int         not null,
  recipient_id bigint      not null,                      -- of a channel or device
  due_at       timestamptz not null,
  message_id   bigint      not null,
  constraint newest_update_pkey primary key (queue_id, recipient_id, due_at, message_id)
);

-- Upkeep forgets rows when no older update waits in the queue any more.
create index newest_update_age on pushq.newest_update (queue_id, due_at);
