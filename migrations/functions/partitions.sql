-- The days of history to create and to drop. The tables belong to the schema's owner. Workers do not own them, because
-- the owner of a table can make other roles run code, for example with a trigger. So workers call functions that have
-- the owner's rights.

-- The missing partitions for `today`, yesterday (a transaction that began before midnight writes there), and `ahead`
-- more days.
create or replace function pushq.partitions_to_make(today date, ahead int)
returns table (parent text, name text, day date)
language sql stable as $$
  select parent, name, day
  from unnest(array['body', 'feedback', 'message', 'result']) parent,
       generate_series(-1, ahead) n,
       lateral (select $1 + n as day) d,
       lateral (select parent || to_char(day, '_YYYYMMDD') as name) p
  where not exists (
    select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('pushq.%I', parent)::regclass and c.relname = name)
  order by day, parent
$$;

-- Whether history has partitions for today. Otherwise every send fails until upkeep has made them. Upkeep makes the one
-- of `result` after the others of the day. The planner inlines this.
create or replace function pushq.has_today() returns boolean
language sql stable as $$
  select to_regclass('pushq.result' || to_char(pushq.today(), '_YYYYMMDD')) is not null
$$;

-- The day that a caller names, or the database's day if it names none. Only the schema's owner may name a day far
-- ahead: otherwise a worker could drop all of history.
create or replace function pushq.upkeep_day(today date) returns date
language sql stable as $$
  select case when pushq.acts_for_all(pushq.caller()) then coalesce($1, pushq.today())
              else least(coalesce($1, pushq.today()), pushq.today() + 1) end
$$;

-- Creates one missing partition. Returns its name, or null if none is missing. `attach` takes SHARE UPDATE EXCLUSIVE on
-- the table, which does not block any enqueue.
create or replace function pushq.make_partition(today date, ahead int) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms' as $$
declare
  missing record;
begin
  select * into missing from pushq.partitions_to_make(pushq.upkeep_day(today), least(ahead, 31)) limit 1;
  if not found then
    return null;
  end if;
  execute format('create table if not exists pushq.%I (like pushq.%I including all)', missing.name, missing.parent);
  execute format('alter table pushq.%I attach partition pushq.%I for values from (%L) to (%L)',
                 missing.parent, missing.name, missing.day, missing.day + 1);
  return missing.name;
end $$;

-- The partitions older than `keep` days, or `keep_feedback` days for feedback, that nothing needs: no job, lease or
-- campaign that is still fanning out names the day. While a tenant arrives from another database, no messages are
-- dropped, and no recipients either, because its jobs are copied after their recipients. Recipients are dropped before
-- their messages and outcomes: without these, they would look like waiting recipients. Detached partitions that were
-- not dropped are included, because nothing else would find them again.
--
-- `job` is read from end to end, but only while a day is due to be dropped.
--
-- Here and elsewhere, the expression for the day is null for other tables: a plan may compute it for all tables in the
-- catalogue before it filters those of history.
create or replace function pushq.partitions_to_drop(today date, keep int, keep_feedback int) returns table (name text)
language sql stable as $$
  select c.relname
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  cross join lateral (
    select split_part(c.relname, '_', 1) as parent,
           to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') as day,
           substring(c.relname from '_[0-9]{8}$') as suffix) d
  where n.nspname = 'pushq' and c.relkind = 'r' and c.relname ~ '^(body|feedback|message|result)_[0-9]{8}$'
    and d.day < $1 - case d.parent when 'feedback' then $3 else $2 end
    and (d.parent in ('body', 'feedback') or to_regclass('pushq.body' || d.suffix) is null)
    and (d.parent in ('feedback', 'result')
      or not exists (select from pushq.job j where j.body_day = d.day)
        and not exists (select from pushq.lease l where l.body_day = d.day)
        and not exists (select from pushq.fan_out f where f.message_day = d.day and not f.done)
        and not exists (select from pushq.tenant_move m where not m.leaves and m.stage = 'copying'))
  order by d.day, d.parent
$$;

-- Drops one such partition of a table. `keep` and `keep_feedback` are the defaults; a tenant's longer time applies.
-- Returns the partition's name, or null if none is left.
--
-- Dropping locks the whole parent table for a moment. While another transaction uses the table, all later ones wait as
-- long as this function waits: 50 ms. Then it fails, and the caller tries again later (docs/decisions.md).
create or replace function pushq.drop_partition(of_parent text, today date, keep int, keep_feedback int) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '50ms' as $$
declare
  longest record;
  old     text;
begin
  select * into longest from pushq.longest_retention(keep, keep_feedback) l(days, feedback_days);
  select d.name into old
  from pushq.partitions_to_drop(pushq.upkeep_day(today), longest.days, longest.feedback_days) d
  where split_part(d.name, '_', 1) = of_parent
  limit 1;
  if found then
    if of_parent = 'feedback' then
      perform pushq.note_lost_reports(old);
    end if;
    execute format('drop table pushq.%I', old);
  end if;
  return old;
end $$;

-- Producers need today's partitions before the first worker creates them.
do $$
begin
  while pushq.make_partition(pushq.today(), 4) is not null loop
  end loop;
end $$;
