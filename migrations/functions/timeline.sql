-- Identifiers that a lost part of the write-ahead log has named are not given out again.
--
-- When an asynchronous standby becomes the primary, or a backup is restored, the last commits may be missing, and
-- `pushq.id` is set back with them. Pushes of these commits may have been sent. A message that got the number of one
-- of them would have its apns-id, too, and a worker would take the leases of another one for its own. So in each copy
-- of the database that is used, the sequence skips more numbers than one copy uses (2^40 of 2^50).

-- The timeline of this server's write-ahead log, with which the names of its files begin (PostgreSQL manual, 26.3.5).
-- Each server that becomes the primary, by promotion or from a base backup, begins one.
create or replace function pushq.current_timeline() returns int
language plpgsql stable as $$
begin
  return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
end $$;

-- Which copy of the database this is: the cluster that it is in, itself (a copy made from it as a template has another
-- number), the sequence `pushq.id` (a dump that is restored makes it anew), and the timeline.
create or replace function pushq.current_lineage() returns text
language plpgsql stable as $$
begin
  return format(
    '%s/%s/%s/%s', (select c.system_identifier from pg_control_system() c),
    (select d.oid from pg_database d where d.datname = current_database()), 'pushq.id'::regclass::oid,
    pushq.current_timeline());
end $$;

-- A digest of when the server was started and where it keeps `pushq.id`. It is another one after each start, and in
-- each copy of the database. It costs less than 1 µs, so each call of a producer compares it; what has changed is
-- looked at only then. In SQL, so that it becomes part of the expression that asks; so does the next one.
create or replace function pushq.current_start() returns bigint
language sql stable as $$
  select hashtextextended(pg_relation_filepath('pushq.id'),
                          (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint)
$$;

-- Whether it has changed since it was last looked at (`pushq.follow_start`). The sequence is read by the function that
-- the view pg_sequences has for it: a query would cost ten times as much. Volatile, as that function is, or it would
-- not become part of an expression.
create or replace function pushq.is_new_start() returns boolean
language sql volatile as $$
  select pushq.current_start() is distinct from pg_sequence_last_value('pushq.known_start')
$$;

-- Skips identifiers if this is another copy of the database than before. Called by whoever is going to draw numbers,
-- when `pushq.is_new_start()`.
--
-- No sequence goes back with a transaction. The lock is held for this call alone, since what has taken it is rolled
-- back: a producer's transaction, which may last, keeps nobody waiting. Without a queue, nothing was sent.
create or replace function pushq.follow_start() returns void
language plpgsql as $$
declare
  start   bigint := pushq.current_start();
  lineage bigint := hashtextextended(pushq.current_lineage(), 0);
begin
  -- Such a transaction draws no numbers.
  if current_setting('transaction_read_only') = 'on' then
    return;
  end if;
  begin
    perform pushq.take_lock('timeline');
    if lineage <> (select last_value from pushq.known_lineage) then
      if exists (select from pushq.queue) then
        perform pushq.skip_ids();
      end if;
      perform pushq.skip_setting_ids();
      perform setval('pushq.known_lineage', lineage);
    end if;
    perform setval('pushq.known_start', start);
    raise exception using errcode = 'PQ001', message = 'the lock is given back';
  exception when sqlstate 'PQ001' then null;
  end;
end $$;

-- Skips identifiers, and notes up to which number they were drawn. There is room for 1,023 copies of a database, one
-- after the other.
create or replace function pushq.skip_ids() returns void
language plpgsql as $$
declare
  next bigint;
begin
  perform pushq.take_lock('identifiers');
  -- In steps of 1,024.
  next := (select s.last_value from pushq.id s) + (1::bigint << 50);
  if next >> 60 > 0 then
    raise exception 'no identifiers are left in this database, which was restored or failed over 1,023 times'
      using errcode = 'PQ409', hint = 'export the devices of its tenants, and import them in a new installation';
  end if;
  perform setval('pushq.id', next);
  perform setval('pushq.old_id', next);
end $$;

-- The same for what is identified by an `int`. Workers know queues and credentials by these numbers, and those that run
-- on while a database is restored have known some that are lost. There is room for 21,000 copies.
create or replace function pushq.skip_setting_ids() returns void
language plpgsql as $$
declare
  sequence regclass;
begin
  perform pushq.take_lock('identifiers');
  for sequence in
    select pg_get_serial_sequence('pushq.' || t, 'id')
    from unnest('{tenant, app, credential, queue}'::text[]) t
  loop
    perform setval(sequence, nextval(sequence) + 100000);
  end loop;
end $$;
