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
  unreachable int[]       not null default '{}',          -- queues for which it cannot reach APNs
  constraint worker_pkey primary key (id)
) with (fillfactor = 50);

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
  constraint duty_pkey primary key (name)
) with (fillfactor = 50);

-- A schema that was restored without its data has no rows: a worker that looks for duties adds those that are missing.
insert into pushq.duty (name) values ('upkeep'), ('suspects'), ('quotas'), ('credentials'), ('feedback'),
                                     ('figures'), ('schedules');
