-- What workers keep beside the queue.

-- For the operator. Nothing is decided by it: a lease's deadline alone decides.
create table pushq.worker (
  id          bigint      not null,                       -- random, new with every start
  name        text        not null,                       -- host:pid, for people
  version     text        not null,
  started_at  timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  draining    boolean     not null default false,
  queues      text        not null default '*',           -- the pattern of those that it serves
  in_flight   int         not null default 0,             -- requests that wait for their answer
  jobs        int         not null default 0,             -- jobs that it holds, and their recipients
  recipients  int         not null default 0,
  connections int         not null default 0,             -- connections to APNs, those that are being opened among them
  streams     int         not null default 0,             -- requests that they take at once, those in flight among them
  unreachable int[]       not null default '{}',          -- queues for which it cannot reach APNs
  in_outage   int[]       not null default '{}',          -- queues for which APNs refuses most pushes
  refusals    text[]      not null default '{}',          -- what it answers to those of each of them
  unusable    int[]       not null default '{}',          -- queues whose credential it cannot use
  faults      text[]      not null default '{}',          -- why it cannot use that of each of them
  constraint worker_pkey primary key (id)
) with (fillfactor = 50);

-- What a worker sent for a queue, and what APNs answered, between its last two signs of life: for the operator, too. Of
-- its busiest queues only, and only of those that it sent for. Unlogged: after a crash it is written anew in seconds.
create unlogged table pushq.throughput (
  worker_id  bigint      not null,
  queue_id   int         not null,
  shown_at   timestamptz not null default now(),
  seconds    real        not null,                        -- how long it was between the two
  sent       int         not null default 0,              -- requests that were handed to a connection
  in_flight  int         not null default 0,              -- requests that wait for their answer at the end
  accepted   int         not null default 0,
  unanswered int         not null default 0,
  refused    int[]       not null default '{}',           -- code of a reason, count, next code, count, …
  latency    int[]       not null default '{}',           -- answers by how long they took (`AnswerTimes`)
  constraint throughput_pkey primary key (worker_id, queue_id)
) with (fillfactor = 50);

create index throughput_queue on pushq.throughput (queue_id);

-- Workers that found nothing to do and wait on LISTEN. Producers notify only while there is one that serves their
-- queue: a commit that notifies takes an instance-wide lock (12,200 commits a second fell to 736 with it). Unlogged:
-- after a crash the table is empty, and workers that reconnect write their rows anew.
create unlogged table pushq.sleeper (
  worker_id bigint      not null,
  queues    text,                                         -- which it serves, as a pattern of LIKE; null: all
  since     timestamptz not null default now(),
  constraint sleeper_pkey primary key (worker_id)
);

-- Work that runs once for the fleet, leased like a job: there is no leader.
create table pushq.duty (
  name      text        not null,
  next_at   timestamptz not null default now(),
  worker_id bigint,                                       -- which carries it out
  deadline  timestamptz,
  failing_since timestamptz,                              -- null: it did not fail the last time
  problem   text,                                         -- why it failed the last time
  constraint duty_pkey primary key (name)
) with (fillfactor = 50);

-- A schema that was restored without its data has no rows: a worker that looks for duties adds those that are missing.
insert into pushq.duty (name) values ('upkeep'), ('suspects'), ('quotas'), ('credentials'), ('feedback'), ('reports'),
                                     ('figures'), ('schedules'), ('listing'), ('webhooks');
