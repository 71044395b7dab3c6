-- The days of history: which to make, and which to drop.

-- The partitions that should exist on `today` and do not: today's, yesterday's (a transaction begun before midnight
-- writes there) and `ahead` days more. The caller runs each statement by itself.
create or replace function pushq.partitions_to_make(today date, ahead int) returns table (statement text)
language sql stable as $$
  select unnest(array[
    format('create table if not exists pushq.%I (like pushq.%I including all)', name, parent),
    -- The worker that makes it may be another login than the one that owns the schema.
    format('alter table pushq.%I owner to %I', name,
           pg_get_userbyid((select relowner from pg_class where oid = format('pushq.%I', parent)::regclass))),
    format('alter table pushq.%I attach partition pushq.%I for values from (%L) to (%L)', parent, name, day, day + 1)])
  from unnest(array['body', 'feedback', 'message', 'result']) parent,
       generate_series(-1, ahead) n,
       lateral (select $1 + n as day) d,
       lateral (select parent || to_char(day, '_YYYYMMDD') as name) p
  where not exists (
    select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('pushq.%I', parent)::regclass and c.relname = name)
  order by day, parent
$$;

-- The partitions older than `keep` days, or `keep_feedback` days for feedback, that nothing waits for: no job, no lease
-- and no campaign that is still being fanned out names the day. Dropped with `detach … concurrently`, which cannot run
-- in a transaction, so the caller runs it. `state` is where an earlier round got to: 'attached', 'pending' (a detach
-- that was interrupted and blocks the next one until it is finalized), or 'detached' (and not dropped: nothing else
-- would ever find it again).
--
-- `job` is read from end to end, but only while a day is due to be dropped.
create or replace function pushq.partitions_to_drop(today date, keep int, keep_feedback int)
returns table (parent text, name text, state text)
language sql stable as $$
  select d.parent, c.relname,
         case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'pending' else 'attached' end
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_inherits i on i.inhrelid = c.oid
  cross join lateral (select split_part(c.relname, '_', 1) as parent, to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
  where n.nspname = 'pushq' and c.relkind = 'r' and c.relname ~ '^(body|feedback|message|result)_[0-9]{8}$'
    and d.day < $1 - case d.parent when 'feedback' then $3 else $2 end
    and (d.parent in ('feedback', 'result')
      or not exists (select from pushq.job j where j.body_day = d.day)
        and not exists (select from pushq.lease l where l.body_day = d.day)
        and not exists (select from pushq.fan_out f where f.message_day = d.day and not f.done))
  order by d.day, d.parent
$$;

-- Producers need today's partitions before the first worker looks after them.
do $$
declare
  step record;
begin
  for step in select statement from pushq.partitions_to_make(pushq.today(), 4) loop
    execute step.statement;
  end loop;
end $$;
