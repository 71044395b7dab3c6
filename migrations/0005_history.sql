-- What is large or finished: written once, and dropped by day. Retention leaves no bloat. Only a retry by hand updates a result (`retried_at`).
--
-- Upkeep (Workers/Duties/UpkeepDuty.swift) attaches days ahead and drops old ones. `attach` takes SHARE UPDATE EXCLUSIVE, where
-- `create table … partition of` would take ACCESS EXCLUSIVE and stop every enqueue behind one idle transaction.

create table pushq.body (                                 -- the recipients of a job
  day             date     not null,                      -- on which it was made
  queue_id        int      not null,
  job_id          bigint   not null,
  root_id         bigint   not null,
  slice           smallint not null default 0,            -- ranges are disjoint within (root, slice); retries: -attempt
  first_device_id bigint   not null,
  last_device_id  bigint   not null,
  device_ids      bigint[] not null,                      -- ascending
  constraint body_pkey primary key (day, queue_id, job_id)
) partition by range (day);

-- Compressing 500 sorted ids with pglz costs three quarters of all fan-out; external costs nothing.
alter table pushq.body alter device_ids set storage external;

-- "Did this device get that campaign?" is a look-up here, a binary search and one byte of `result.outcomes`.
create index body_range on pushq.body (queue_id, root_id, slice, first_device_id);

create table pushq.result (                               -- the end of a job
  day         date        not null,                       -- on which it ended
  queue_id    int         not null,
  job_id      bigint      not null,
  root_id     bigint      not null,
  body_day    date        not null,
  message_id  bigint      not null,
  lane        smallint    not null,
  attempt     smallint    not null,
  ended_at    timestamptz not null,
  outcomes    bytea       not null,                       -- QueueCore/Outcome/Outcome.swift
  delivered   smallint    not null,
  rejected    smallint    not null,
  failed      smallint    not null,
  suppressed  smallint    not null,
  expired     smallint    not null,
  cancelled   smallint    not null,
  unknown     smallint    not null,
  retried     smallint    not null,
  notes       jsonb,                                      -- ordinal -> raw text of a reason that the table does not know
  retried_at  timestamptz,                                -- set once: its failed recipients were sent to again by hand
  constraint result_pkey primary key (day, queue_id, job_id)
) partition by range (day);

create index result_root on pushq.result (queue_id, root_id, job_id);

-- Few: jobs with recipients that failed and were not sent to again. Every other insert passes it over.
create index result_failed on pushq.result (queue_id, job_id) where failed > 0 and retried_at is null;

-- The partitions that should exist on `today` and do not: today's, yesterday's (a transaction begun before midnight writes
-- there) and `ahead` days more. The caller runs each statement by itself.
create function pushq.partitions_to_make(today date, ahead int) returns table (statement text)
language sql stable as $$
  select unnest(array[
    format('create table if not exists pushq.%I (like pushq.%I including all)', name, parent),
    format('alter table pushq.%I attach partition pushq.%I for values from (%L) to (%L)', parent, name, day, day + 1)])
  from unnest(array['body', 'result']) parent,
       generate_series(-1, ahead) n,
       lateral (select $1 + n as day) d,
       lateral (select parent || to_char(day, '_YYYYMMDD') as name) p
  where not exists (
    select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('pushq.%I', parent)::regclass and c.relname = name)
  order by day, parent
$$;

-- The partitions older than `keep` days that nothing waits for: no job and no lease names a day of bodies that is dropped. Dropped with
-- `detach … concurrently`, which cannot run in a transaction, so the caller runs it. `state` is where an earlier round got to:
-- 'attached', 'pending' (a detach that was interrupted and blocks the next one until it is finalized), or 'detached' (and not dropped:
-- nothing else would ever find it again).
create function pushq.partitions_to_drop(today date, keep int) returns table (parent text, name text, state text)
language sql stable as $$
  select d.parent, c.relname,
         case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'pending' else 'attached' end
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_inherits i on i.inhrelid = c.oid
  cross join lateral (select split_part(c.relname, '_', 1) as parent, to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
  where n.nspname = 'pushq' and c.relkind = 'r' and c.relname ~ '^(body|result)_[0-9]{8}$' and d.day < $1 - $2
    and (d.parent = 'result'
      or not exists (select from pushq.job j where j.body_day = d.day)
        and not exists (select from pushq.lease l where l.body_day = d.day))
  order by d.day, d.parent
$$;

-- Forgets messages of a queue that are older than `keep` days and that nothing can ask for any more: nobody is kept as their
-- recipient, waiting or not, no result names them, and no campaign is still being fanned out. Looks at `step` messages after `after`
-- and returns the id of the last one, or null when there are none left of that age.
create function pushq.forget_messages(q int, today date, keep int, after bigint, step int) returns bigint
language plpgsql as $$
declare
  cutoff timestamptz := (today - keep)::timestamp at time zone 'UTC';
  upto   bigint;
begin
  -- Ids ascend with time, so a queue's first message tells whether there is anything to do.
  if (select created_at from pushq.message where queue_id = q and id > after order by id limit 1) >= cutoff then
    return null;
  end if;
  with old as materialized (
    select id, root_id
    from (select id, root_id, created_at from pushq.message where queue_id = q and id > after order by id limit step) m
    where created_at < cutoff),
  gone as (
    delete from pushq.message m
    using old o
    where m.queue_id = q and m.id = o.id
      -- A day of bodies is kept for as long as a job or a lease names it.
      and not exists (select from pushq.body b where b.queue_id = q and b.root_id = o.root_id)
      and not exists (select from pushq.result r where r.queue_id = q and r.root_id = o.root_id)
      and not exists (select from pushq.fan_out f where f.queue_id = q and f.campaign_id = o.root_id and not f.done))
  select max(id) into upto from old;
  return upto;
end $$;

do $$
declare
  step record;
begin
  for step in select statement from pushq.partitions_to_make(pushq.today(), 4) loop
    execute step.statement;
  end loop;
end $$;
