-- The rows of a tenant that change while it is copied to another database (PostgresStore/Moving/NotedChanges.swift).
--
-- Triggers note the key of each changed row, in the transaction that changes it. So the changes are found without
-- comparing anything else, and the tenant is stopped only while its changes are copied, whatever its size.
--
-- Creating a trigger waits for all open transactions that have written to the table. So a change is either committed
-- before the table is copied, or noted. A note is deleted after its row was copied in the state in which it was when
-- the note was read. A transaction that commits late has notes that were not read yet, whatever their numbers. The
-- triggers exist only while a tenant moves. For rows of other tenants, they compare the queue and do nothing.

-- The columns that identify a row of a table within a queue, with their types.
create or replace function pushq.content_key(from_table text, out names text[], out types text[])
language sql stable as $$
  select c.keys || case when c.by_day then array['day'] else '{}' end,
         c.types || case when c.by_day then array['date'] else '{}' end
  from pushq.content_columns(from_table) c
$$;

-- The condition that the row `r` has the key `k.key`.
create or replace function pushq.has_key(from_table text) returns text
language sql stable as $$
  select string_agg(format('r.%I = (k.key::text[])[%s]::%s', p.name, p.n, p.type), ' and ' order by p.n)
  from pushq.content_key(from_table) c
  cross join lateral unnest(c.names, c.types) with ordinality p(name, type, n)
$$;

-- The keys $1 of the queue $2, as rows. The planner must not know the number of the queue: a queue that is not in the
-- statistics seems to have one row, so that any index would do to find it, and each key would cost all rows of the
-- queue.
create or replace function pushq.keys_of_queue() returns text
language sql immutable as $$
  select '(select $2 as queue_id, k.key from unnest($1) k(key) offset 0)'
$$;

-- Notes a change. The arguments of the trigger are the tenant's number, the table, and the columns of its key. It runs
-- with the owner's rights, because a role that may change the row need not have the right to write here.
create or replace function pushq.note_moved_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  rows json[] := case tg_op
                   when 'INSERT' then array[to_json(new)]
                   when 'DELETE' then array[to_json(old)]
                   else array[to_json(old), to_json(new)] end;
begin
  -- The remains of a tenant that has moved are being deleted. A transaction that cannot see the end of the move yet
  -- notes them needlessly.
  if exists (select from pushq.tenant_move m where m.owner = tg_argv[0]::int and m.stage = 'moved') then
    return null;
  end if;
  insert into pushq.moved_row (owner, name, queue, key)
  select distinct tg_argv[0]::int, tg_argv[1], (r ->> 'queue_id')::int,
         array(select r ->> k.name from unnest(tg_argv[2:]) with ordinality k(name, n) order by k.n)::text
  from unnest(rows) r;
  return null;
end $$;

-- Starts noting changes, without earlier notes.
create or replace function pushq.begin_noting(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  update pushq.tenant_move m
  set noted = '{}', changed_at = clock_timestamp()
  where m.tenant = begin_noting.tenant and m.leaves and m.stage = 'copying'
  returning * into strict move;
  perform pushq.refuse_undecided(tenant, move.owner);
  delete from pushq.moved_row r where r.owner = move.owner;
end $$;

-- Creates the triggers that note changes to these queues' rows in one table, unless they exist. Fails if an open
-- transaction has written to the table. Other writers then wait as well, for a tenth of a second at most.
create or replace function pushq.note_changes(tenant text, queues int[], from_table text) returns void
language plpgsql as $$
declare
  owner   int  := (select m.owner from pushq.tenant_move m where m.tenant = note_changes.tenant and m.leaves);
  name    text := format('moving_%s_%s', owner, left(md5(queues::text), 8));
  columns text := (
    select string_agg(format(', %L', k), '' order by n)
    from pushq.content_key(from_table) c, unnest(c.names) with ordinality p(k, n));
  change  record;
begin
  if exists (
    select from pg_trigger t
    where t.tgrelid = format('pushq.%I', from_table)::regclass and t.tgname = name || '_delete') then
    return;
  end if;
  perform pushq.lock_contents(from_table, 'share row exclusive');
  for change in
    select * from (values ('insert', 'new'), ('update', 'new'), ('delete', 'old')) v(action, row)
  loop
    execute format(
      'create trigger %I after %s on pushq.%I for each row when (%s.queue_id = any (%L::int[]))
       execute function pushq.note_moved_row(%L, %L%s)',
      name || '_' || change.action, change.action, from_table, change.row, queues, owner, from_table, columns);
  end loop;
end $$;

-- Locks a table that is written all the time. It first takes a lock that conflicts only with upkeep, and waits for it:
-- vacuum gives way after a second. Then only other transactions are left, and it waits for them for a tenth of a
-- second.
create or replace function pushq.lock_contents(from_table text, mode text) returns void
language plpgsql as $$
begin
  perform set_config('lock_timeout', '5s', true);
  execute format('lock table pushq.%I in share update exclusive mode', from_table);
  perform set_config('lock_timeout', '100ms', true);
  execute format('lock table pushq.%I in %s mode', from_table, mode);
end $$;

-- Removes the triggers of a tenant's move from a table, and the triggers of moves that are gone: their tenant came back
-- before the triggers could be removed. Fails while another session has the table open.
create or replace function pushq.stop_noting(tenant text, from_table text) returns void
language plpgsql as $$
declare
  old record;
begin
  for old in
    select t.tgname as name, p.owner
    from pg_trigger t
    cross join lateral (select substring(t.tgname from '^moving_([0-9]+)_')::int as owner) p
    left join pushq.tenant_move m on m.owner = p.owner and m.leaves
    where t.tgrelid = format('pushq.%I', from_table)::regclass and t.tgparentid = 0 and p.owner is not null
      and (m.tenant is null or m.tenant = stop_noting.tenant)
  loop
    perform pushq.lock_contents(from_table, 'access exclusive');
    execute format('drop trigger %I on pushq.%I', old.name, from_table);
  end loop;
  delete from pushq.moved_row r where not exists (select from pushq.tenant_move m where m.owner = r.owner);
end $$;

-- The first `step` notes of a tenant, by table and queue, with the current rows that they name, if those still exist.
-- The rows are text, which every type has, and which loses no value.
create or replace function pushq.moved_rows(tenant text, step int)
returns table (name text, queue int, ids bigint[], keys text[], rows text[])
language plpgsql stable set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' as $$
begin
  for name, queue, ids, keys in
    select n.name, n.queue, array_agg(n.id), array_agg(distinct n.key)
    from (
      select r.*
      from pushq.moved_row r
      where r.owner = (select m.owner from pushq.tenant_move m where m.tenant = moved_rows.tenant and m.leaves)
      order by r.id
      limit step) n
    group by n.name, n.queue
    order by 1, 2
  loop
    execute format(
      'select coalesce(array_agg(s.row), ''{}'')
       from %s k
       cross join lateral (select r::text as row from pushq.%I r where r.queue_id = k.queue_id and %s limit 1) s',
      pushq.keys_of_queue(), name, pushq.has_key(name))
    into rows using keys, queue;
    return next;
  end loop;
end $$;

-- The rows of a range, as text.
create or replace function pushq.range_rows(from_table text, q int, on_day date, after text[], last text[])
returns text[]
language plpgsql stable set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' as $$
declare
  rows text[];
begin
  execute format('select coalesce(array_agg(r::text), ''{}'') from pushq.%I r where %s', from_table,
                 pushq.content_range(from_table, q, on_day, after, last)) into rows;
  return rows;
end $$;

-- Makes the rows with these keys equal to the other database: `rows`, and no others. Returns the number of `rows`.
--
-- Another row may conflict with one of them by a unique constraint, and is deleted. In the other database that row has
-- changed or is gone, so it is noted, or in a range that is still to be compared, and is copied again.
create or replace function pushq.put_moved_rows(from_table text, q int, keys text[], rows text[]) returns bigint
language plpgsql set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' set plan_cache_mode = force_custom_plan
-- Each row is found by an index, whatever the statistics of the table say.
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  c       record := pushq.content_columns(from_table);
  arrived text   := format('(select v::pushq.%I as row from unnest($1) v offset 0) s', from_table);
  one_day date;
  rule    record;
  count   bigint;
begin
  if exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400', message = format('queue %s is in use', q);
  end if;
  if c.by_day then
    for one_day in execute format('select distinct (s.row).day from %s', arrived) using rows loop
      perform pushq.make_day(from_table, one_day);
    end loop;
  end if;
  execute format('delete from pushq.%I r using %s k where r.queue_id = k.queue_id and %s', from_table,
                 pushq.keys_of_queue(), pushq.has_key(from_table)) using keys, q;
  for rule in
    select coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') as condition, a.is_same
    from pg_index i
    cross join lateral (
      select string_agg(format('r.%1$I = n.%1$I', a.attname), ' and ') as is_same
      from pg_attribute a
      where a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[]) and a.attname <> 'queue_id') a
    where i.indrelid = format('pushq.%I', from_table)::regclass and i.indisunique and not i.indisprimary
  loop
    execute format(
      'delete from pushq.%1$I r
       using (select $2 as here, e.* from (select (s.row).* from %2$s) e where %3$s offset 0) n
       where r.queue_id = n.here and %4$s', from_table, arrived, rule.condition, rule.is_same) using rows, q;
  end loop;
  execute format(
    'insert into pushq.%I (queue_id, %s) overriding system value select $2, %s from %s', from_table,
    array_to_string(array(select format('%I', k) from unnest(c.all_columns) k), ', '),
    array_to_string(array(select format('(s.row).%I', k) from unnest(c.all_columns) k), ', '), arrived)
  using rows, q;
  get diagnostics count = row_count;
  return count;
end $$;
