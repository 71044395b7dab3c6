-- What workers keep beside the queue.

-- For the operator. Nothing is decided by it: a lease's deadline alone decides.
create table pushq.worker (
  incarnation bigint      not null,                       -- random, new with every start
  name        text        not null,                       -- host:pid, for people
  version     text        not null,
  started_at  timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  draining    boolean     not null default false,
  constraint worker_pkey primary key (incarnation)
) with (fillfactor = 50);

-- Workers that have run dry and wait on LISTEN. Producers notify only while there is one: a commit that notifies takes an
-- instance-wide lock (12,200 commits a second fell to 736 with it). Unlogged: after a crash nobody sleeps.
create unlogged table pushq.sleeper (
  incarnation bigint      not null,
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

insert into pushq.duty (name) values ('upkeep'), ('suspects'), ('credentials');

-- Wakes the workers that sleep. Called last by everything that makes work.
--
-- In plpgsql, as are all functions on the way of a single push: the plans of a function in SQL that is not inlined are made anew
-- with each call (70 to 150 µs; PostgreSQL 15).
create function pushq.wake() returns void
language plpgsql as $$
begin
  if exists (select from pushq.sleeper) then
    perform pg_notify('pushq', '');
  end if;
end $$;
