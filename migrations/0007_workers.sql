-- What workers keep beside the queue.

-- For the operator. Nothing is decided by it: a lease's deadline alone decides.
create table pushq.worker (
  incarnation bigint      not null,                       -- random, new with every start
  name        text        not null,                       -- host:pid, for people
  version     text        not null,
  started_at  timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  draining    boolean     not null default false,
  queues      text        not null default '*',           -- the pattern of those that it serves
  in_flight   int         not null default 0,             -- requests that wait for their answer
  unreachable int[]       not null default '{}',          -- queues for which it cannot reach APNs
  constraint worker_pkey primary key (incarnation)
) with (fillfactor = 50);

-- Workers that have run dry and wait on LISTEN. Producers notify only while there is one that serves their queue: a commit that notifies
-- takes an instance-wide lock (12,200 commits a second fell to 736 with it). Unlogged: after a crash nobody sleeps, and workers that find
-- PostgreSQL back write their rows anew.
create unlogged table pushq.sleeper (
  incarnation bigint      not null,
  queues      text,                                       -- which it serves, as a pattern of LIKE; null: all
  since       timestamptz not null default now(),
  constraint sleeper_pkey primary key (incarnation)
);

-- Work that runs once for the fleet, leased like a job: there is no leader.
create table pushq.duty (
  name     text        not null,
  next_at  timestamptz not null default now(),
  owner    bigint,
  deadline timestamptz,
  constraint duty_pkey primary key (name)
) with (fillfactor = 50);

-- A schema that was restored without its data has none: whoever looks for duties adds what is missing.
insert into pushq.duty (name) values ('upkeep'), ('suspects'), ('credentials');

-- Wakes the workers that sleep and serve this queue; with null, all that sleep. Called last by everything that makes work. Each listens to
-- a channel of its own, and takes its row away at once: so many commits in one moment notify it, and none after that.
--
-- In plpgsql, as are all functions on the way of a single push: the plans of a function in SQL that is not inlined are made anew
-- with each call (70 to 150 µs; PostgreSQL 15).
create function pushq.wake(queue int default null) returns void
language plpgsql as $$
declare
  sleeper pushq.sleeper;
  name    text;
begin
  if not exists (select from pushq.sleeper) then
    return;
  end if;
  for sleeper in select * from pushq.sleeper loop
    if sleeper.queues is not null and queue is not null then
      if name is null then
        select n.name into name from pushq.queue_name n where n.queue_id = wake.queue;
      end if;
      continue when name not like sleeper.queues;
    end if;
    perform pg_notify('pushq_' || sleeper.incarnation, '');
  end loop;
end $$;

-- Tells all workers that something was stopped or changed, so that those who hold something of it look at once: `queue`, `tenant` or
-- `root` (a campaign or send), and its number. Seldom called; nothing depends on its being heard.
create function pushq.tell(what text, number bigint) returns void
language sql as $$ select pg_notify('pushq', what || ' ' || number) $$;
