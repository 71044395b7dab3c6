-- What pushq keeps about sends besides their jobs. Upkeep deletes old rows in batches.

-- Idempotency keys of sends. They have a plain table of their own, so that no hot table needs an index for them.
create table pushq.send_key (
  queue_id   int         not null,
  key        text        not null,
  root_id    bigint      not null,
  digest     bytea       not null,                        -- of the content: the key is refused for other content
  due_at     timestamptz not null,                        -- when its send was due: the key is deleted some days later
  constraint send_key_pkey primary key (queue_id, key),
  constraint send_key_length check (octet_length(key) between 1 and 200)
);

-- The index begins with the queue, because each tenant keeps its keys for its own time.
create index send_key_age on pushq.send_key (queue_id, due_at);

-- Sends that reached no device, and the reason. Without a recipient there is no job to show it. A producer's
-- transaction must not fail for this, because its order does not depend on whether a user has a device.
create table pushq.empty_send (
  queue_id   int         not null,
  root_id    bigint      not null,
  why        text        not null,
  created_at timestamptz not null default now(),
  constraint empty_send_pkey primary key (queue_id, root_id)
);

create index empty_send_age on pushq.empty_send (created_at);

-- Cancellations. A worker that holds or claims a job ends it if a row names the job or its root, so retries in other
-- jobs stop, too. They have a table of their own because producers lock its rows until they commit. Workers only read
-- it.
create table pushq.cancelled (
  queue_id   int         not null,
  id         bigint      not null,                        -- of a send, a broadcast or a job
  due_at     timestamptz not null default now(),          -- the later of the cancellation and the due time
  constraint cancelled_pkey primary key (queue_id, id)
);

-- Like the keys' index: a repeated call gets a warning about the cancellation as long as its key is kept.
create index cancelled_age on pushq.cancelled (queue_id, due_at);

-- Updates of Live Activities that replace older ones, by channel or device. Once a row is due, a worker that claims an
-- update that was due earlier suppresses it. So queueing an update needs no search, and an older one that comes back by
-- a retry or a rescue finds this row, too. A scheduled update waits here beside those that are due. They have a table
-- of their own, on which no worker waits for a lock: workers only read it.
create table pushq.newest_update (
  queue_id     int         not null,
  recipient_id bigint      not null,                      -- of a channel or device
  due_at       timestamptz not null,
  message_id   bigint      not null,
  is_floor     boolean     not null default false,        -- older rows were deleted: the row stays if it is cancelled
  constraint newest_update_pkey primary key (queue_id, recipient_id, due_at, message_id)
);

-- Upkeep deletes rows when no older update waits in the queue any more.
create index newest_update_age on pushq.newest_update (queue_id, due_at);
