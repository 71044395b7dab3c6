-- What changes of a tenant while it is copied to another database (PostgresStore/Moving/NotedChanges.swift).
--
-- Triggers note the key of each row that anybody changes, in the transaction that changes it. So what has changed is
-- found without looking at anything else, and a tenant is stopped for as long as that takes to copy, whatever it has
-- beside.
--
-- Making a trigger waits for all who have written to the table and are not over, so a change is either committed before
-- the table is copied, or noted. A note is deleted after its row was copied as it was when the note was read: whoever
-- commits late has notes that nobody has read, whatever their numbers. The triggers are there only while a tenant
-- moves. For rows of others they compare the queue, and do nothing.

-- The columns that tell the rows of a table apart within a queue, with their types.
create or replace function pushq.content_key(from_table text, out names text[], out types text[])
language sql stable as $$
  select c.keys || case when c.by_day then array['day'] else '{}' end,
         c.types || case when c.by_day then array['date'] else '{}' end
  from pushq.content_columns(from_table) c
$$;

-- That the row `r` has the key `k.key`.
create or replace function pushq.has_key(from_table text) returns text
language sql stable as $$
  select string_agg(format('r.%I = (k.key::text[])[%s]::%s', p.name, p.n, p.type), ' and ' order by p.n)
  from pushq.content_key(from_table) c
  cross join lateral unnest(c.names, c.types) with ordinality p(name, type, n)
$$;

-- Notes a change. The arguments of the trigger: whose row it is, the table, and the columns of its key. With the
-- owner's rights: who changes a row need not be able to write here otherwise.
create or replace function pushq.note_moved_row() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  rows json[] := case tg_op
                   when 'INSERT' then array[to_json(new)]
                   when 'DELETE' then array[to_json(old)]
                   else array[to_json(old), to_json(new)] end;
begin
  -- What is left at the old place is being deleted. Who cannot see that yet notes it in vain.
  if exists (select from pushq.tenant_move m where m.owner = tg_argv[0]::int and m.stage = 'moved') then
    return null;
  end if;
  insert into pushq.moved_row (owner, name, queue, key)
  select distinct tg_argv[0]::int, tg_argv[1], (r ->> 'queue_id')::int,
         array(select r ->> k.name from unnest(tg_argv[2:]) with ordinality k(name, n) order by k.n)::text
  from unnest(rows) r;
  return null;
end $$;

-- Begins to note what changes, from nothing.
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

-- Has changes of the rows of these queues in one table noted, if they are not yet. Fails if somebody has written to the
-- table and is not over: meanwhile, others who want to write wait as well, for a tenth of a second at most.
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

-- Takes a lock on a table that others write to all the time. First one for which nobody waits but upkeep, which is
-- waited for: vacuum gives way after a second. Then only transactions are left, and they get a tenth.
create or replace function pushq.lock_contents(from_table text, mode text) returns void
language plpgsql as $$
begin
  perform set_config('lock_timeout', '5s', true);
  execute format('lock table pushq.%I in share update exclusive mode', from_table);
  perform set_config('lock_timeout', '100ms', true);
  execute format('lock table pushq.%I in %s mode', from_table, mode);
end $$;

-- Removes the triggers of a tenant's move from one table, if there are any, and those of moves that nobody knows any
-- more: their tenant came back before they could be removed. Fails while somebody has the table open.
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

-- The first `step` notes of a tenant, by table and queue, with the rows that they are about as they are now, of those
-- that are there. Rows are as text, which every type has and no value is lost in.
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
       from unnest($1) k(key)
       cross join lateral (select r::text as row from pushq.%I r where r.queue_id = $2 and %s limit 1) s',
      name, pushq.has_key(name))
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

-- Makes the rows with these keys what they are at the other side: those of `rows`, and no others. Returns how many
-- these are.
--
-- A row that has what another one may not have as well is in their way. At the other side it is something else by now,
-- or gone: so it is noted, or in a range that is still to be compared, and comes again.
create or replace function pushq.put_moved_rows(from_table text, q int, keys text[], rows text[]) returns bigint
language plpgsql set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' set plan_cache_mode = force_custom_plan
-- Each row is found by an index, whatever is known of the table.
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
  execute format('delete from pushq.%I r using unnest($1) k(key) where r.queue_id = $2 and %s', from_table,
                 pushq.has_key(from_table)) using keys, q;
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
       using (select * from (select (s.row).* from %2$s) e where %3$s) n
       where r.queue_id = $2 and %4$s', from_table, arrived, rule.condition, rule.is_same) using rows, q;
  end loop;
  execute format(
    'insert into pushq.%I (queue_id, %s) overriding system value select $2, %s from %s', from_table,
    array_to_string(array(select format('%I', k) from unnest(c.all_columns) k), ', '),
    array_to_string(array(select format('(s.row).%I', k) from unnest(c.all_columns) k), ', '), arrived)
  using rows, q;
  get diagnostics count = row_count;
  return count;
end $$;
