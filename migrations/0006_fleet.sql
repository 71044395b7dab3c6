-- What workers store besides the queue.

-- For the operator. Nothing depends on it: only a lease's deadline decides whether a worker still holds a job.
create table pushq.worker (
  id          bigint      not null,                       -- random, new at every start
  name        text        not null,                       -- host:pid, for people
  version     text        not null,
  started_at  timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  draining    boolean     not null default false,
  queues      text        not null default '*',           -- the pattern of the queues that it serves
  in_flight   int         not null default 0,             -- requests that wait for their answer
  jobs        int         not null default 0,             -- jobs that it holds, and their recipients
  recipients  int         not null default 0,
  connections int         not null default 0,             -- to APNs, including those that are being opened
  streams     int         not null default 0,             -- the capacity of `connections`, in requests
  unreachable int[]       not null default '{}',          -- queues for which it cannot reach APNs
  in_outage   int[]       not null default '{}',          -- queues of which APNs takes hardly any push
  refusals    text[]      not null default '{}',          -- the refusals, for each queue in `in_outage`
  unusable    int[]       not null default '{}',          -- queues whose credential it cannot use
  faults      text[]      not null default '{}',          -- the reason, for each queue in `unusable`
  prevention  text,                                       -- what PostgreSQL refuses it, so that it does not send
  constraint worker_pkey primary key (id)
) with (fillfactor = 50);

-- What a worker sent for a queue, and what APNs answered, between its last two heartbeats: for the operator only. It
-- covers the worker's busiest queues, and only queues for which it sent. Unlogged: after a crash, workers write it
-- again within seconds.
create unlogged table pushq.throughput (
  worker_id  bigint      not null,
  queue_id   int         not null,
  shown_at   timestamptz not null default now(),
  seconds    real        not null,                        -- the time between the two heartbeats
  sent       int         not null default 0,              -- requests that were handed to a connection
  in_flight  int         not null default 0,              -- requests without an answer at the end
  accepted   int         not null default 0,
  unanswered int         not null default 0,
  refused    int[]       not null default '{}',           -- code of a reason, count, next code, count, …
  latency    int[]       not null default '{}',           -- number of answers by duration (`AnswerTimes`)
  constraint throughput_pkey primary key (worker_id, queue_id)
) with (fillfactor = 50);

create index throughput_queue on pushq.throughput (queue_id);

-- Workers that found nothing to do and wait on LISTEN. A producer notifies only if one of them serves its queue: a
-- commit that notifies takes an instance-wide lock (12,200 commits a second fell to 736 with it). Unlogged: after a
-- crash the table is empty, and workers that reconnect write their rows again.
--
-- A row counts for twelve seconds, and its worker writes it anew every five. So producers read the newest end of the
-- key only: a snapshot that is open for an hour, such as that of `pg_dump`, keeps the dead rows of all workers that
-- were notified meanwhile, and each send would look at all of them.
create unlogged table pushq.sleeper (
  worker_id bigint      not null,
  queues    text,                                         -- a LIKE pattern of the queues it serves; null: all
  since     timestamptz not null default clock_timestamp(),
  constraint sleeper_pkey primary key (since, worker_id)
);

-- Work that runs once for the fleet, leased like a job: there is no leader.
create table pushq.duty (
  name      text        not null,
  next_at   timestamptz not null default now(),
  worker_id bigint,                                       -- the worker that carries it out
  deadline  timestamptz,
  failing_since timestamptz,                              -- null: its last run did not fail
  problem   text,                                         -- why its last run failed
  constraint duty_pkey primary key (name)
) with (fillfactor = 50);

-- A schema that was restored without its data has no rows here. A worker that looks for duties adds missing ones.
insert into pushq.duty (name) values ('upkeep'), ('suspects'), ('quotas'), ('credentials'), ('feedback'), ('reports'),
                                     ('figures'), ('schedules'), ('listing'), ('webhooks');
