-- Telling workers that there is work, or that something was stopped.

-- Whether a row of `pushq.sleeper` counts, so that producers notify its worker. It counts for twelve seconds, and its
-- worker writes it anew before they have passed. Workers/Intake/Wakefulness.swift has the same time, and a test
-- compares them.
--
-- The time is the statement's and not the clock's, which is no condition of an index. In a long statement, rows of
-- workers that are gone count for longer, which does no harm. The planner inlines this, so the index is used.
create or replace function pushq.is_asleep(since timestamptz) returns boolean
language sql stable as $$
  select $1 > statement_timestamp() - interval '12 seconds'
$$;

-- Wakes the workers that sleep and serve this queue; with null, all that sleep. Every function that creates work calls
-- this last. Each worker listens to its own channel, and deletes its row as soon as it wakes. So only the commits of
-- that moment notify it.
--
-- It is in plpgsql, like all functions that a single push calls: PostgreSQL plans a function in SQL that is not inlined
-- again with each call (70 to 150 µs; PostgreSQL 15).
create or replace function pushq.wake(queue int default null) returns void
language plpgsql set enable_seqscan = off as $$
declare
  sleeper pushq.sleeper;
  name    pg_catalog.text;
begin
  for sleeper in select * from pushq.sleeper s where pushq.is_asleep(s.since) loop
    if sleeper.queues is not null and queue is not null then
      if name is null then
        select n.name into name from pushq.queue_name n where n.queue_id = wake.queue;
      end if;
      continue when name not like sleeper.queues;
    end if;
    perform pg_notify('pushq_' || sleeper.worker_id, '');
  end loop;
end $$;

-- Tells all workers that a `queue`, `tenant` or `root` (a campaign or send) with this number was stopped or changed, so
-- that workers that hold its jobs look at once. Nothing depends on it: workers also find out by themselves.
--
-- Each worker is notified on its own channel. On a shared channel, any login of the database could hear which session
-- has stopped something, and `pg_stat_activity` shows whose session that is. A worker's number is random, and no other
-- login can read it.
create or replace function pushq.tell(what text, number bigint) returns void
language plpgsql as $$
begin
  perform pg_notify('pushq_' || w.id, what || ' ' || number) from pushq.worker w;
end $$;
