-- The contents of a moving tenant's queues (move_tenant.sql): their rows by range, and whether they are equal in two
-- databases (PostgresStore/Moving/ContentCopy.swift).

-- The columns of a table of contents, without the queue's number, and the key columns that identify a row within a
-- queue and a day.
create or replace function pushq.content_columns(
  from_table text, out all_columns text[], out keys text[], out types text[], out by_day boolean)
language sql stable as $$
  select array(
           select a.attname::text from pg_attribute a
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> 'queue_id'
           order by a.attnum),
         k.names, k.types, c.relkind = 'p'
  from pg_class c
  cross join lateral (
    select array_agg(a.attname::text order by p.n) as names,
           array_agg(format_type(a.atttypid, null) order by p.n) as types
    from pg_index i
    cross join lateral unnest(i.indkey::int2[]) with ordinality p(number, n)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = p.number
    where i.indrelid = c.oid and i.indisprimary
      and a.attname <> 'queue_id' and not (c.relkind = 'p' and a.attname = 'day')) k
  where c.oid = format('pushq.%I', from_table)::regclass
$$;

-- The condition for the rows of a queue, and of a day in tables by day, after the key `after` and up to `last`; null
-- means from the first, or to the last.
create or replace function pushq.content_range(from_table text, q int, on_day date, after text[], last text[])
returns text
language plpgsql stable as $$
declare
  c    record := pushq.content_columns(from_table);
  keys text   := array_to_string(array(select format('r.%I', k) from unnest(c.keys) k), ', ');
begin
  return format('r.queue_id = %s', q)
    || case when c.by_day then format(' and r.day = %L::date', on_day) else '' end
    || case when after is null then '' else format(' and (%s) > (%s)', keys, pushq.key_text(after, c.types)) end
    || case when last is null then '' else format(' and (%s) <= (%s)', keys, pushq.key_text(last, c.types)) end;
end $$;

create or replace function pushq.key_text(key text[], types text[]) returns text
language sql stable as $$
  select string_agg(format('%L::%s', v, t), ', ' order by n) from unnest(key, types) with ordinality k(v, t, n)
$$;

-- The digest that identifies an entry of the audit. The entry has another number in another database.
create or replace function pushq.digest_of_entry(a pushq.audit) returns text
language sql stable as $$
  select md5(jsonb_build_array(
    (extract(epoch from a.changed_at) * 1000000)::bigint, a.login, a.acting_as, a.application, a.address, a.object,
    a.name, a.action, a.changes)::text)
$$;

-- The next `step` rows after the key `after`: the key of the last one (null: there are no more), their number, and a
-- digest of their contents. With `last`, it covers all rows up to that key.
create or replace function pushq.digest_range(
  from_table text, q int, on_day date, after text[], step int, inout last text[], out count bigint, out digest numeric
)
language plpgsql stable set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' set plan_cache_mode = force_custom_plan set enable_seqscan = off
as $$
declare
  c    record := pushq.content_columns(from_table);
  keys text   := array_to_string(array(select format('r.%I', k) from unnest(c.keys) k), ', ');
  -- Text takes longer, but PostgreSQL has no hash of json and bit.
  hash text   := case when exists (
    select from pg_attribute a
    where a.attrelid = format('pushq.%I', from_table)::regclass and a.atttypid in ('json'::regtype, 'bit'::regtype)
      and not a.attisdropped)
    then 'hashtextextended(r::text, 0)' else 'hash_record_extended(r, 0)' end;
begin
  execute format(
    'with page as materialized (
       select %1$s from pushq.%2$I r where %3$s order by %4$s %5$s)
     select (select array[%6$s] from page r order by %7$s limit 1), count(*),
            coalesce(sum(%8$s), 0)
     from page r',
    array_to_string(array(select format('r.%I', k) from unnest(c.all_columns) k), ', '), from_table,
    pushq.content_range(from_table, q, on_day, after, last), keys,
    case when last is null then 'limit ' || step else '' end,
    array_to_string(array(select format('r.%I::text', k) from unnest(c.keys) k), ', '),
    array_to_string(array(select format('r.%I desc', k) from unnest(c.keys) k), ', '), hash)
  into last, count, digest;
  if count < step then
    last := null;
  end if;
end $$;

-- Deletes the rows of a range.
create or replace function pushq.clear_range(from_table text, q int, on_day date, after text[], last text[])
returns void
language plpgsql as $$
begin
  if exists (select from pushq.queue k where k.id = q) then
    raise exception using errcode = 'PQ400', message = format('queue %s is in use', q);
  end if;
  execute format(
    'delete from pushq.%I r where %s', from_table, pushq.content_range(from_table, q, on_day, after, last));
end $$;

-- Creates a day of history that a tenant brings with it, unless it exists.
create or replace function pushq.make_day(parent text, day date) returns void
language plpgsql set lock_timeout = '5s' as $$
declare
  name text := parent || to_char(day, '_YYYYMMDD');
begin
  if not exists (
    select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('pushq.%I', parent)::regclass and c.relname = name) then
    execute format('create table if not exists pushq.%I (like pushq.%I including all)', name, parent);
    -- Upkeep drops it with the owner's rights.
    execute format('alter table pushq.%I owner to %I', name, (
      select pg_get_userbyid(c.relowner) from pg_class c where c.oid = format('pushq.%I', parent)::regclass));
    execute format(
      'alter table pushq.%I attach partition pushq.%I for values from (%L) to (%L)', parent, name, day, day + 1);
  end if;
end $$;
