-- What is large or finished: written once, and dropped by day. Retention leaves no bloat. Only a retry by hand updates
-- a result (`retried_at`).
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

-- What APNs answered, in the order of time: a queue's suspects are judged by it.
create index result_answered on pushq.result (queue_id, ended_at) where delivered + rejected > 0;

-- Few: jobs with recipients that failed and were not sent to again. Every other insert passes it over.
create index result_failed on pushq.result (queue_id, job_id) where failed > 0 and retried_at is null;

-- The partitions that should exist on `today` and do not: today's, yesterday's (a transaction begun before midnight writes
-- there) and `ahead` days more. The caller runs each statement by itself.
create function pushq.partitions_to_make(today date, ahead int) returns table (statement text)
language sql stable as $$
  select unnest(array[
    format('create table if not exists pushq.%I (like pushq.%I including all)', name, parent),
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
create function pushq.partitions_to_drop(today date, keep int, keep_feedback int) returns table (parent text, name text, state text)
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

-- For how many days partitions have to be kept: as long as any tenant wants, and no shorter than is usual.
create function pushq.longest_retention(inout keep int, inout keep_feedback int)
language sql stable as $$
  select greatest($1, max(history_days)), greatest($2, max(feedback_days)) from pushq.tenant
$$;

-- Days whose partitions are kept for other tenants, with the queues of those who keep them no longer. `keep` and `keep_feedback` are
-- what is usual. Recipients come before messages, which go when none of theirs is left.
create function pushq.days_to_clear(today date, keep int, keep_feedback int) returns table (parent text, day date, queues int[])
language sql stable as $$
  select p.parent, p.day, array_agg(q.id order by q.id)
  from (
    select split_part(c.relname, '_', 1) as parent, to_date(right(c.relname, 8), 'YYYYMMDD') as day
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('pushq.body'::regclass, 'pushq.feedback'::regclass, 'pushq.message'::regclass, 'pushq.result'::regclass)) p
  cross join pushq.longest_retention($2, $3) longest
  join pushq.tenant t on p.day < $1 - case p.parent when 'feedback' then coalesce(t.feedback_days, $3) else coalesce(t.history_days, $2) end
  join pushq.queue q on q.tenant_id = t.id
  where p.day >= $1 - case p.parent when 'feedback' then longest.keep_feedback else longest.keep end
  group by p.parent, p.day
  order by p.parent, p.day
$$;

-- Deletes up to `step` rows of these queues from a day, but for what still waits: the recipients of jobs, and the messages of these and
-- of campaigns that are still to be fanned out. Returns how many.
create function pushq.clear_day(from_parent text, from_day date, queues int[], step int) returns bigint
language plpgsql as $$
declare
  needed text := case from_parent
    when 'body' then
      'exists (select from pushq.job j where j.queue_id = r.queue_id and j.id = r.job_id)
         or exists (select from pushq.lease l where l.queue_id = r.queue_id and l.job_id = r.job_id)'
    when 'message' then
      'exists (select from pushq.body b where b.day = r.day and b.queue_id = r.queue_id and b.root_id = r.root_id)
         or exists (
           select from pushq.fan_out f
           where f.queue_id = r.queue_id and f.campaign_id = r.root_id and f.message_day = r.day and not f.done)'
    else 'false' end;
  gone   bigint;
begin
  execute format(
    'with old as materialized (
       select r.ctid as spot
       from pushq.%1$I r
       where r.day = $1 and r.queue_id = any ($2) and not (%2$s)
       limit $3)
     delete from pushq.%1$I r
     where r.day = $1 and r.ctid = any (array(select spot from old))', from_parent, needed)
  using from_day, queues, step;
  get diagnostics gone = row_count;
  return gone;
end $$;

-- Copies a message to a day on which something for it gets a body. Nearly always it is there.
create function pushq.bring_message(q int, message bigint, from_day date, to_day date default pushq.today()) returns void
language plpgsql as $$
declare
  brought pushq.message;
begin
  if from_day >= to_day then
    return;
  end if;
  select * into brought from pushq.message m where m.day = from_day and m.queue_id = q and m.id = message;
  brought.day := to_day;
  insert into pushq.message values (brought.*) on conflict do nothing;
end $$;

-- Whether there are days of bodies and messages that are past retention.
create function pushq.has_old_days(today date, keep int) returns boolean
language sql stable as $$
  select exists (
    select from pg_class c
    where c.relnamespace = 'pushq'::regnamespace and c.relname ~ '^(body|message)_[0-9]{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') < $1 - $2)
$$;

-- Moves what still waits out of the days that are past retention, so that they can be dropped: a job that is scheduled
-- for next year would keep its day that long, and every claim looks at all days. It goes to `today`. Looks at `step`
-- jobs behind the job (after_queue, after_job), and returns the last of them, null when there was none. What somebody
-- else holds is left to the next round.
create function pushq.move_waiting(
  today date, keep int, step int, inout after_queue int, inout after_job bigint, out moved bigint
)
language plpgsql as $$
begin
  with page as materialized (
    select queue_id, id, body_day
    from pushq.job
    where (queue_id, id) > (after_queue, after_job)
    order by queue_id, id
    limit step),
  old as materialized (
    select j.queue_id, j.id, j.body_day, j.message_id
    from page p
    join pushq.job j on j.queue_id = p.queue_id and j.id = p.id
    where p.body_day < today - keep
    for update of j skip locked),
  brought as materialized (
    select o.* from old o, pushq.bring_message(o.queue_id, o.message_id, o.body_day, today)),
  body as (
    delete from pushq.body b
    using brought o
    where b.day = o.body_day and b.queue_id = o.queue_id and b.job_id = o.id
    returning b.*),
  copied as (
    insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids)
    select today, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids from body),
  renamed as (
    update pushq.job j
    set body_day = today
    from brought o
    where j.queue_id = o.queue_id and j.id = o.id)
  select p.queue_id, p.id, (select count(*) from old) into after_queue, after_job, moved
  from page p
  order by p.queue_id desc, p.id desc
  limit 1;
end $$;

-- The same for the messages of campaigns that are still to be fanned out.
create function pushq.move_scheduled(today date, keep int) returns void
language plpgsql as $$
begin
  with old as materialized (
    select queue_id, campaign_id, message_id, message_day
    from pushq.fan_out
    where not done and message_day < today - keep
    for no key update skip locked),
  brought as materialized (
    select o.queue_id, o.campaign_id
    from old o, pushq.bring_message(o.queue_id, o.message_id, o.message_day, today))
  update pushq.fan_out f
  set message_day = today
  from brought b
  where f.queue_id = b.queue_id and f.campaign_id = b.campaign_id;
end $$;

do $$
declare
  step record;
begin
  for step in select statement from pushq.partitions_to_make(pushq.today(), 4) loop
    execute step.statement;
  end loop;
end $$;
