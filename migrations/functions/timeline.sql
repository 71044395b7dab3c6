-- Ids that were in a lost part of the write-ahead log are not used again.
--
-- When an asynchronous standby becomes the primary, or a backup is restored, the last commits may be missing, and
-- `pushq.id` is set back with them. Pushes of these commits may have been sent. A message that got the id of one of
-- them would also have its apns-id, and a worker would mistake another worker's leases for its own. So in each copy
-- of the database that is used, the sequence skips more ids than one copy uses, at least 2^40 of 2^50. It skips up to
-- twice as many, at random: a backup that is restored a second time does not know what was drawn after the first
-- time.

-- The timeline of this server's write-ahead log. The names of the log's files begin with it (PostgreSQL manual,
-- 26.3.5). Each server that becomes the primary, by promotion or from a base backup, begins a new one.
create or replace function pushq.current_timeline() returns int
language plpgsql stable as $$
begin
  if pg_is_in_recovery() then
    raise exception using errcode = 'PQ503', message = 'this server is a standby, or still replays its archive',
      hint = 'try again when pg_is_in_recovery() is false, or use the primary';
  end if;
  return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
end $$;

-- The number that `initdb` gave the cluster. All standbys and backups of the cluster have it.
create or replace function pushq.current_cluster() returns bigint
language sql stable as $$ select c.system_identifier from pg_control_system() c $$;

-- Identifies this copy of the database: by its cluster, its own number (a copy made from it as a template has another
-- one), the sequence `pushq.id` (restoring a dump creates it anew), and the timeline.
create or replace function pushq.current_lineage() returns text
language plpgsql stable as $$
begin
  return format(
    '%s/%s/%s/%s', pushq.current_cluster(),
    (select d.oid from pg_database d where d.datname = current_database()), 'pushq.id'::regclass::oid,
    pushq.current_timeline());
end $$;

-- A digest of the server's start time and of the file of `pushq.id`. It changes with each start, and differs between
-- copies of the database. It costs less than 1 µs, so each call of a producer compares it, and looks further only if it
-- has changed. It is in SQL, so that the planner inlines it into the calling expression; so is the next function.
create or replace function pushq.current_start() returns bigint
language sql stable as $$
  select hashtextextended(pg_relation_filepath('pushq.id'),
                          (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint)
$$;

-- Whether the digest has changed since it was last checked (`pushq.follow_start`). The sequence is read by the function
-- behind the view pg_sequences, because a query would cost ten times as much. It is volatile like that function;
-- otherwise it would not be inlined.
create or replace function pushq.is_new_start() returns boolean
language sql volatile as $$
  select pushq.current_start() is distinct from pg_sequence_last_value('pushq.known_start')
$$;

-- Skips ids if this is another copy of the database than before. Sessions that are about to draw ids call it when
-- `pushq.is_new_start()`.
--
-- Sequences do not go back when a transaction rolls back. The lock is held only during this call, because the block
-- that has taken it is rolled back: a producer's transaction, which may last, blocks no other session. If there is no
-- queue, nothing was sent.
create or replace function pushq.follow_start() returns void
language plpgsql as $$
declare
  start   bigint;
  lineage bigint;
begin
  -- A read-only transaction draws no ids. Those of a standby are all read-only, and it has no lineage.
  if current_setting('transaction_read_only') = 'on' then
    return;
  end if;
  start := pushq.current_start();
  lineage := hashtextextended(pushq.current_lineage(), 0);
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

-- Skips ids, and records the last one that this copy knows of and the last one that may have been drawn. There is room
-- for 511 copies of a database, one after the other, and for 680 on average.
--
-- Logical replication copies rows, but no sequences. If `pushq.id` is behind the ids of earlier copies, it was not
-- copied, and the copy before may have drawn any of its 2^50 ids.
create or replace function pushq.skip_ids() returns void
language plpgsql as $$
declare
  known bigint;
  next  bigint;
begin
  perform pushq.take_lock('identifiers');
  select greatest(s.last_value, (select max(l.old_id) + (1::bigint << 50) from pushq.lineage l
                                 where l.old_id > s.last_value))
  into known
  from pushq.id s;
  -- Ids grow in steps of 1,024.
  next := known + (1::bigint << 50) + (floor(random() * (1::bigint << 40))::bigint << 10);
  if next >> 60 > 0 then
    raise exception 'no identifiers are left in this database, which was restored or failed over hundreds of times'
      using errcode = 'PQ409', hint = 'export the devices of its tenants, and import them in a new installation';
  end if;
  perform setval('pushq.id', next);
  perform setval('pushq.lost_id', known);
  perform setval('pushq.old_id', next);
end $$;

-- The same for objects with an `int` as their id. Workers know queues and credentials by these numbers, and workers
-- that keep running during a restore may know some that are lost. There is room for 2,100 copies, and for 3,900 on
-- average.
create or replace function pushq.skip_setting_ids() returns void
language plpgsql as $$
declare
  sequence regclass;
begin
  perform pushq.take_lock('identifiers');
  perform pushq.catch_up_sequences();
  for sequence in
    select pg_get_serial_sequence('pushq.' || t, 'id')
    from unnest('{tenant, app, credential, queue}'::text[]) t
  loop
    perform setval(sequence, nextval(sequence) + 100000 + floor(random() * 900000)::int);
  end loop;
end $$;

-- Sets each sequence that numbers a table's rows to the table's highest number, if it is behind: logical replication
-- has copied the rows, but not the sequence.
create or replace function pushq.catch_up_sequences() returns void
language plpgsql as $$
declare
  one     record;
  highest bigint;
begin
  for one in
    select t as name, pg_get_serial_sequence('pushq.' || t, 'id') as sequence
    from unnest('{tenant, app, credential, queue, lineage, audit, moved_row}'::text[]) t
  loop
    execute format('select max(id) from pushq.%I', one.name) into highest;
    if highest > coalesce(pg_sequence_last_value(one.sequence), 0) then
      perform setval(one.sequence, highest);
    end if;
  end loop;
end $$;

-- Whether `pushq.id` is behind ids of devices. Logical replication has copied the rows, but not the sequence, into
-- tables that `migrate` had made: so it is not seen that this is another copy.
create or replace function pushq.is_behind_devices() returns boolean
language sql stable set enable_seqscan = off as $$
  select exists (
    select
    from pushq.queue q
    cross join lateral (
      select d.id from pushq.device d where d.queue_id = q.id order by d.id desc limit 1) d
    where d.id > (select s.last_value from pushq.id s))
$$;

-- Skips ids before the first tenant, app, credential or queue that is created in another copy of the database.
create or replace function pushq.follow_creation() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pushq.is_new_start() then
    perform pushq.follow_start();
  end if;
  return null;
end $$;

create or replace trigger follow_start before insert on pushq.tenant execute function pushq.follow_creation();
create or replace trigger follow_start before insert on pushq.app execute function pushq.follow_creation();
create or replace trigger follow_start before insert on pushq.credential execute function pushq.follow_creation();
create or replace trigger follow_start before insert on pushq.queue execute function pushq.follow_creation();
