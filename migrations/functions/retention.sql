-- Deleting one tenant's rows from days that other tenants keep, and moving waiting jobs out of days that are dropped.
--
-- These functions wait a second for a lock, because what their caller does besides, such as showing that the worker is
-- alive, waits behind them: another session may have locked a whole table. The next round does what is left.

-- The number of days for which partitions are kept: the maximum over all tenants, of which those without a setting keep
-- the default, and at least one day. So nobody with a worker's rights, who names the default, can drop a day that a
-- tenant's setting keeps.
create or replace function pushq.longest_retention(inout keep int, inout keep_feedback int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select greatest(1, coalesce(max(coalesce(t.history_days, $1)), $1)),
         greatest(1, coalesce(max(coalesce(t.feedback_days, $2)), $2))
  from (
    select history_days, feedback_days from pushq.tenant
    union all
    -- Tenants that are moving between two databases have no row in `tenant`.
    select history_days, feedback_days from pushq.tenant_move where stage <> 'moved') t
$$;

-- Days whose partitions are kept for some tenants, with the queues of the tenants that do not keep them. `keep` and
-- `keep_feedback` are the defaults. Recipients come before messages, because a message is deleted when it has no
-- recipients left.
create or replace function pushq.days_to_clear(today date, keep int, keep_feedback int)
returns table (parent text, day date, queues int[])
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.parent, p.day, array_agg(q.id order by q.id)
  from (
    select split_part(c.relname, '_', 1) as parent,
           to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') as day
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('pushq.body'::regclass, 'pushq.feedback'::regclass, 'pushq.message'::regclass,
                          'pushq.result'::regclass)) p
  cross join pushq.longest_retention($2, $3) longest
  join pushq.tenant t on p.day < $1 - case p.parent when 'feedback' then coalesce(t.feedback_days, $3)
                                                    else coalesce(t.history_days, $2) end
  join pushq.queue q on q.tenant_id = t.id
  where p.day >= $1 - case p.parent when 'feedback' then longest.keep_feedback else longest.keep end
  group by p.parent, p.day
  order by p.parent, p.day
$$;

-- Looks at up to `step` rows of these queues on a day, after the row (after_queue, after_id). It deletes them, except
-- what is still needed: the recipients of jobs, their messages, and the messages of campaigns that have not fanned out.
-- Rows that a producer has locked stay until the next round. Returns the number of deleted rows, and the last row that
-- was looked at, null when there is none after it. A worker's login has only those queues cleared that are removed, or
-- whose tenants do not keep the day.
--
-- It names the day's own tables, because planning a query over a year's partitions takes a tenth of a second. `offset
-- 0` keeps PostgreSQL from reading the rows of all other tenants into a hash.
create or replace function pushq.clear_day(
  from_parent text, from_day date, queues int[], step int, inout after_queue int, inout after_id bigint, out gone bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  suffix text := to_char(from_day, '_YYYYMMDD');
  key    text := case when from_parent in ('body', 'result') then 'job_id'
                      when from_parent in ('feedback', 'message') then 'id' end;
  needed text := case from_parent
    when 'body' then
      'exists (select from pushq.job j where j.queue_id = r.queue_id and j.id = r.key offset 0)
         or exists (select from pushq.lease l where l.queue_id = r.queue_id and l.job_id = r.key offset 0)'
    when 'message' then
      'exists (
           select from pushq.fan_out f
           where f.queue_id = r.queue_id and f.campaign_id = r.root_id and f.message_day = $1 and not f.done offset 0)'
      -- Bodies are dropped first.
      || case when to_regclass('pushq.body' || suffix) is null then ''
              else format(
                ' or exists (
                   select from pushq.%I b
                   where b.day = $1 and b.queue_id = r.queue_id and b.root_id = r.root_id offset 0)',
                'body' || suffix) end
    else 'false' end;
  seen   int := 0;
  q      int;
  page   record;
begin
  if key is null then
    raise exception using errcode = 'PQ400', message = format('%s is not kept by day', from_parent);
  end if;
  if not pushq.acts_for_all(pushq.caller()) then
    -- A worker may not clear the days that every tenant keeps.
    if from_day > pushq.today() - 2 and exists (select from pushq.queue k where k.id = any (queues)) then
      raise exception using errcode = 'PQ400',
        message = format('%s of %s is not past retention', from_parent, from_day);
    end if;
    -- It may not clear what a tenant's own setting keeps either, or anything of a tenant that is between two databases.
    -- This is no error: a setting may have changed since the worker asked what is to be cleared.
    queues := array(
      select u.id
      from unnest(queues) u(id)
      left join pushq.queue k on k.id = u.id
      left join pushq.tenant t on t.id = k.tenant_id
      where case when k.id is null then exists (select from pushq.removed_queue g where g.queue_id = u.id)
                 else from_day < pushq.today() - coalesce(case from_parent when 'feedback' then t.feedback_days
                                                                           else t.history_days end, 1) end);
  end if;
  gone := 0;
  if to_regclass('pushq.' || from_parent || suffix) is null then
    after_queue := null; after_id := null;
    return;
  end if;
  if from_parent = 'feedback' then
    perform pushq.note_lost_reports(from_parent || suffix, queues);
  end if;
  -- Most queues have no rows on most days.
  for q in execute format(
    'select u.id
     from unnest($1) u(id)
     where u.id >= $2 and exists (select from pushq.%I r where r.day = $3 and r.queue_id = u.id)
     order by u.id', from_parent || suffix)
  using queues, after_queue, from_day
  loop
    execute format(
      'with page as materialized (
         select r.ctid as spot, r.%2$I as key, r.queue_id%4$s
         from pushq.%1$I r
         where r.day = $1 and r.queue_id = $2 and r.%2$I > $3
         order by r.%2$I
         limit $4),
       old as materialized (
         select o.ctid as spot
         from pushq.%1$I o
         where o.ctid = any (array(select r.spot from page r where not (%3$s)))
         for update of o skip locked),
       gone as (
         delete from pushq.%1$I o where o.ctid = any (array(select spot from old)) returning 1)
       select (select count(*) from page) as rows, (select max(key) from page) as last,
              (select count(*) from gone) as gone',
      from_parent || suffix, key, needed, case from_parent when 'message' then ', r.root_id' else '' end)
    into page using from_day, q, case when q = after_queue then after_id else 0 end, step - seen;
    seen := seen + page.rows;
    gone := gone + page.gone;
    if seen >= step then
      after_queue := q;
      after_id := page.last;
      return;
    end if;
  end loop;
  after_queue := null; after_id := null;
end $$;

-- Whether a job that was queued days ago is due within a day. Such a job is moved to `today`, so that its recipients
-- and its message are kept as long as its result, to show them and to retry them. Otherwise a push that was scheduled a
-- week ago would be deleted on the morning after it was sent. A job that is already due, as in a paused queue, stays.
create or replace function pushq.is_due_soon(body_day date, run_at timestamptz, today date) returns boolean
language sql stable
return body_day < today - 1 and run_at > now() and run_at < now() + interval '1 day';

-- Whether there are days of bodies and messages that are past retention, or jobs that are due soon. The check for such
-- jobs reads `job` from end to end.
create or replace function pushq.has_old_days(today date, keep int) returns boolean
language sql stable set lock_timeout = '1s' as $$
  select exists (
      select from pg_class c
      where c.relnamespace = 'pushq'::regnamespace and c.relname ~ '^(body|message)_[0-9]{8}$'
        and to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') < $1 - $2)
    or exists (select from pushq.job j where pushq.is_due_soon(j.body_day, j.run_at, $1))
$$;

-- Moves waiting jobs out of the days that are past retention, so that these days can be dropped: a job that is
-- scheduled for next year would keep its day that long, and every claim looks at all days. The jobs move to `today`,
-- and so do jobs that are due soon (`pushq.is_due_soon`). It looks at `step` jobs after the job (after_queue,
-- after_job), and returns the last of them, null when there was none. Locked jobs stay until the next round, and so do
-- jobs whose message another transaction is copying.
create or replace function pushq.move_waiting(
  today date, keep int, step int, inout after_queue int, inout after_job bigint, out moved bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
  with page as materialized (
    select queue_id, id, body_day, run_at
    from pushq.job
    where (queue_id, id) > (after_queue, after_job)
      -- The contents of a tenant that is moving are compared between the two databases, so nothing of them may move
      -- meanwhile.
      and queue_id <> all ((select pushq.queues_under_way())::int[])
    order by queue_id, id
    limit step),
  old as materialized (
    select j.queue_id, j.id, j.body_day, j.message_id
    from page p
    join pushq.job j on j.queue_id = p.queue_id and j.id = p.id
    -- Jobs move to a later day only. A worker's login names `today`, `keep` and the jobs: it could otherwise move
    -- recipients to a day that is about to be dropped.
    where p.body_day < today - greatest(keep, 0) or pushq.is_due_soon(p.body_day, p.run_at, today)
    for update of j skip locked),
  apart as materialized (
    select b.queue_id, b.message_id
    from (
      select array_agg(queue_id) as queues, array_agg(message_id) as messages, array_agg(body_day) as days
      from old) a,
      pushq.bring_messages(a.queues, a.messages, a.days, today) b),
  brought as materialized (
    select * from old where (queue_id, message_id) not in (select queue_id, message_id from apart)),
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

-- The same for the messages of campaigns that have not fanned out.
create or replace function pushq.move_scheduled(today date, keep int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
  with old as materialized (
    select f as campaign
    from pushq.fan_out f
    where not done and message_day < today - keep
      and queue_id <> all ((select pushq.queues_under_way())::int[])
    for no key update skip locked),
  brought as materialized (
    select (campaign).queue_id, (campaign).campaign_id from old where pushq.bring_campaign(campaign, today))
  update pushq.fan_out f
  set message_day = today
  from brought b
  where f.queue_id = b.queue_id and f.campaign_id = b.campaign_id;
end $$;

-- Deletes up to `step` keys of sends, or cancellations, that were due longer ago than their tenant keeps keys: `keep`
-- days if it has no setting. Rows that a producer has locked are kept. Returns the number of deleted rows. Each queue
-- is one look-up in an index. Queues of a tenant that is still arriving are not in `queue` yet, so they are left out. A
-- cancellation is also kept as long as its tenant keeps history, and while a job of it waits, which may be scheduled
-- far ahead.
create or replace function pushq.forget_sends(from_table text, keep int, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  over text := case from_table
    when 'cancelled' then
      'not exists (select from pushq.body b where b.queue_id = r.queue_id and b.root_id = r.id)
         and not exists (select from pushq.job j where j.queue_id = r.queue_id and j.id = r.id)
         and not exists (select from pushq.lease l where l.queue_id = r.queue_id and l.job_id = r.id)'
    when 'send_key' then 'true' end;
  age  text := case from_table when 'cancelled' then 'greatest(coalesce(t.key_days, $1), t.history_days)'
                               else 'coalesce(t.key_days, greatest($1, 1))' end;
  gone bigint;
begin
  if over is null then
    raise exception using errcode = 'PQ400', message = format('nothing of %s is kept as long as keys are', from_table);
  end if;
  execute format(
    'delete from pushq.%1$I
     where ctid = any (array(
       select r.ctid
       from pushq.tenant t
       join pushq.queue q on q.tenant_id = t.id
       cross join lateral (
         select r.ctid
         from pushq.%1$I r
         where r.queue_id = q.id and r.due_at < now() - make_interval(days => %3$s) and (%2$s)
         order by r.due_at
         limit $2
         for update of r skip locked) r
       limit $2))', from_table, over, age)
  using keep, step;
  get diagnostics gone = row_count;
  return gone;
end $$;

-- Deletes up to `step` rows of a plain table that are past retention, the oldest first, except those that a producer
-- has locked. Returns their number. The row of a job whose end was refused is kept until the job has ended.
create or replace function pushq.forget_old(from_table text, days int, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  age  text := case from_table when 'empty_send' then 'created_at' when 'stuck_job' then 'refused_at' end;
  over text := case from_table
    when 'stuck_job' then
      'not exists (select from pushq.job j where j.queue_id = r.queue_id and j.id = r.job_id)
         and not exists (select from pushq.lease l where l.queue_id = r.queue_id and l.job_id = r.job_id)'
    else 'true' end;
  gone bigint;
begin
  if age is null then
    raise exception using errcode = 'PQ400', message = format('nothing of %s is forgotten by its age', from_table);
  end if;
  execute format(
    'delete from pushq.%1$I
     where ctid = any (array(
       select r.ctid
       from pushq.%1$I r
       where r.%2$I < now() - make_interval(days => $1) and (%3$s)
       order by r.%2$I
       limit $2
       for update of r skip locked))', from_table, age, over)
  using case from_table when 'stuck_job' then 0 else greatest(days, 1) end, step;
  get diagnostics gone = row_count;
  return gone;
end $$;

-- The queues that have rows of updates which were due more than `days` ago. Each queue is one look-up in an index.
create or replace function pushq.queues_with_old_updates(days int) returns setof int
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query
  select q.id
  from pushq.queue q
  where exists (
    select from pushq.newest_update e
    where e.queue_id = q.id and e.due_at < now() - make_interval(days => days));
end $$;

-- When the oldest of some updates that wait was due: of those in the queue's next `step` jobs after `after_job`, and of
-- those that workers hold. Null without any. `last_job` is the last of these jobs; null if there are no more.
--
-- An update that still waits when all jobs have been read, step by step, was seen: each step reads what is held at its
-- time, and what continues in another job has a higher number there, which a later step reads.
create or replace function pushq.oldest_update(
  q int, after_job bigint, step int, out oldest timestamptz, out last_job bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_sort = off as $$
begin
  with page as materialized (
    select j.id, j.body_day, j.message_id
    from pushq.job j
    where j.queue_id = q and j.id > after_job
    order by j.id
    limit step)
  select (
           select min(m.due_at)
           from (
             select p.body_day, p.message_id from page p
             union
             select l.body_day, l.message_id from pushq.lease l where l.queue_id = q) w
           cross join lateral (
             select m.due_at
             from pushq.message m
             where m.day = w.body_day and m.queue_id = q and m.id = w.message_id
             limit 1) m),
         (select max(p.id) from page p having count(*) = step)
  into oldest, last_job;
end $$;

-- Deletes up to `step` rows of a queue's updates that were due more than `days` ago, if no older update waits: without
-- the row, the older update would be sent. `oldest` is when the oldest one that waits was due; null without any. Rows
-- that a producer has locked stay until the next round. Returns the number of deleted rows.
create or replace function pushq.forget_updates(q int, days int, oldest timestamptz, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  gone bigint;
begin
  delete from pushq.newest_update n
  where n.ctid = any (array(
    select r.ctid
    from pushq.newest_update r
    where r.queue_id = q and r.due_at < now() - make_interval(days => days) and (oldest is null or r.due_at <= oldest)
    order by r.due_at
    limit step
    for update of r skip locked));
  get diagnostics gone = row_count;
  return gone;
end $$;
