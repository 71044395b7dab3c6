-- Identifiers that a lost part of the write-ahead log has named are not given out again.
--
-- When an asynchronous standby becomes the primary, the last commits of the old one may be missing, and `pushq.id` is
-- set back with them. Pushes of these commits may have been sent. A message that got the number of one of them would
-- have its apns-id, too, and a worker would take the leases of another one for its own. Each server that becomes the
-- primary, by promotion or from a backup, begins a timeline: then the sequence skips more numbers than one timeline
-- uses (2^40 of 2^60).

-- The timeline of this server's write-ahead log, with which the names of its files begin (PostgreSQL manual, 26.3.5).
create or replace function pushq.current_timeline() returns int
language plpgsql stable as $$
begin
  return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
end $$;

-- Called by whoever is going to draw numbers: with each call of a producer, and for each session of a worker or an
-- operator. Returns the server's timeline.
--
-- Neither sequence goes back with a transaction. The lock is held for this call alone: a producer's transaction, which
-- may last, keeps nobody waiting.
create or replace function pushq.follow_timeline() returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here int := pushq.current_timeline();
begin
  if here = (select last_value from pushq.timeline) then
    return here;
  end if;
  perform pg_advisory_lock(hashtextextended('pushq timeline', 0));
  begin
    if here <> (select last_value from pushq.timeline) then
      perform setval('pushq.id', (select last_value from pushq.id) + (1::bigint << 40));
      perform setval('pushq.timeline', here);
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock(hashtextextended('pushq timeline', 0));
    raise;
  end;
  perform pg_advisory_unlock(hashtextextended('pushq timeline', 0));
  return here;
end $$;
