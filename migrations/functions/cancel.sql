-- Cancelling a send, a broadcast or jobs.

-- Cancels a send or a broadcast. The worker that claims or holds one of its jobs ends the job: untouched recipients as
-- cancelled, uncertain ones as unknown. `stopped` recipients will not be sent to. `held` recipients are in jobs that
-- workers hold; these jobs stop within moments, but some pushes may have been sent. Cancelling again changes nothing,
-- and the audit has one entry. A send that has ended is not cancelled.
create or replace function pushq.cancel(queue text, send bigint, out stopped bigint, out held bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q             int := (pushq.enter(queue, sends => false)).q;
  was_cancelled boolean;
  uncertain     bigint;
begin
  perform pushq.check_isolation('a send cannot be cancelled');
  if exists (select from pushq.campaign c where c.queue_id = q and c.id = send) then
    raise exception using errcode = 'PQ400', message = format('%s is a campaign, not a send', send),
      hint = 'cancel it by its key: pushq-admin campaign cancel, or pushq.cancel_campaign';
  elsif not exists (select from pushq.body b where b.queue_id = q and b.root_id = send)
    and not exists (select from pushq.result r where r.queue_id = q and r.root_id = send)
    and not exists (select from pushq.empty_send e where e.queue_id = q and e.root_id = send) then
    raise exception using errcode = 'PQ404',
      message = format('there is no send %s in queue “%s”, or it is no longer kept', coalesce(send::text, 'null'),
                       queue);
  end if;
  was_cancelled := exists (select from pushq.cancelled x where x.queue_id = q and x.id = send);
  select * into stopped, held, uncertain from pushq.stop_jobs(q, array[send], is_root => true);
  if not was_cancelled and stopped + held + uncertain > 0 then
    perform pushq.note_cancellation(q, 'send', send, stopped + held + uncertain);
  end if;
end $$;

-- Cancels one job of any kind. A person does this by hand, so the audit has an entry, but only one.
create or replace function pushq.cancel_job(queue text, job bigint, out stopped bigint, out held bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q             int := (pushq.enter(queue, sends => false)).q;
  was_cancelled boolean;
  uncertain     bigint;
begin
  if not exists (select from pushq.job j where j.queue_id = q and j.id = cancel_job.job)
    and not exists (select from pushq.lease l where l.queue_id = q and l.job_id = cancel_job.job)
    and not exists (
      select
      from unnest(pushq.days_of('result')) k(day)
      cross join lateral (
        select
        from pushq.result r
        where r.day = k.day and r.queue_id = q and r.job_id = cancel_job.job
        offset 0) r)
  then
    raise exception using errcode = 'PQ404',
      message = format('there is no job %s in queue “%s”, or it is no longer kept', coalesce(job::text, 'null'), queue),
      hint = 'list them with: pushq-admin job list';
  end if;
  was_cancelled := exists (select from pushq.cancelled x where x.queue_id = q and x.id = job);
  select * into stopped, held, uncertain from pushq.stop_jobs(q, array[job], is_root => false);
  if not was_cancelled and stopped + held + uncertain > 0 then
    perform pushq.note_cancellation(q, 'job', job, stopped + held + uncertain);
  end if;
end $$;

-- Cancels up to 500 jobs as `pushq.cancel_job` cancels each, in one transaction and with one entry in the audit.
-- `locked` are the jobs that another transaction has locked. They are left as they are, to be cancelled one by one: if
-- this waited for one of them, all others would wait with it, and two such calls could wait for each other.
create or replace function pushq.cancel_jobs(
  queue text, jobs bigint[], out stopped bigint, out held bigint, out locked bigint[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q         int := (pushq.enter(queue, sends => false)).q;
  ended     bigint[];
  fresh     bigint[];
  again     bigint[];                                     -- cancelled before
  stopping  bigint;                                       -- the number of jobs that are there and were not cancelled
  uncertain bigint;
  missing   text;
  more      record;
begin
  if jobs is null or cardinality(jobs) > 500 then
    raise exception using errcode = 'PQ400',
      message = case when jobs is null then 'jobs cannot be null'
                     else format('jobs has %s numbers, and can have at most 500', cardinality(jobs)) end,
      hint = 'give the numbers of up to 500 jobs in each call';
  end if;
  -- One statement reads both tables: between two statements, a job can be claimed, or come back as a retry.
  with there as materialized (
    select j.id from pushq.job j where j.queue_id = q and j.id = any (jobs)
    union all
    select l.job_id from pushq.lease l where l.queue_id = q and l.job_id = any (jobs)),
  waiting as materialized (
    select j.id from pushq.job j where j.queue_id = q and j.id = any (jobs) for no key update skip locked),
  leased as materialized (
    select l.job_id from pushq.lease l where l.queue_id = q and l.job_id = any (jobs) for no key update skip locked)
  select coalesce(array_agg(n.id order by n.id) filter (where n.is_there and not n.is_own), '{}'),
         coalesce(array_agg(n.id order by n.id) filter (where n.is_there is not true), '{}'),
         coalesce(array_agg(n.id order by n.id) filter (where n.is_own and not n.was_cancelled), '{}'),
         coalesce(array_agg(n.id order by n.id) filter (where n.is_own and n.was_cancelled), '{}')
  into locked, ended, fresh, again
  from (
    select k.id, k.id in (select t.id from there t) as is_there,
           k.id in (select w.id from waiting w union all select l.job_id from leased l) as is_own,
           k.id = any (array(
             select x.id from pushq.cancelled x where x.queue_id = q and x.id = any (jobs))) as was_cancelled
    from (select distinct i from unnest(jobs) i) k(id)) n;
  -- With all days in one condition, each day's index would be searched for all days.
  select coalesce(i::text, 'null') into missing
  from unnest(ended) i
  where i is null or i <> all (array(
    select r.job_id
    from unnest(pushq.days_of('result')) k(day)
    cross join lateral (
      select r.job_id
      from pushq.result r
      where r.day = k.day and r.queue_id = q and r.job_id = any (ended)
      offset 0) r))
  order by i
  limit 1;
  if found then
    raise exception using errcode = 'PQ404',
      message = format('there is no job %s in queue “%s”, or it is no longer kept', missing, queue),
      hint = 'list them with: pushq-admin job list';
  end if;
  stopping := cardinality(fresh);
  select s.stopped, s.held, s.uncertain into stopped, held, uncertain
  from pushq.stop_jobs(q, fresh || ended, is_root => false) s;
  if stopped + held + uncertain > 0 then
    perform pushq.note_cancellation(q, 'job', null, stopped + held + uncertain, jobs => stopping);
  end if;
  select * into more from pushq.stop_jobs(q, again, is_root => false);
  stopped := stopped + more.stopped;
  held := held + more.held;
end $$;

-- Records that sends or jobs are cancelled, and makes their waiting jobs due at once. Records nothing for one that has
-- ended: it was sent before the call, and its failed recipients may be retried. `uncertain` recipients, in waiting
-- jobs, may have been sent to, because a worker was lost or got no answer; they will not be sent to again, and end as
-- unknown.
create or replace function pushq.stop_jobs(
  q int, ids bigint[], is_root boolean, out stopped bigint, out held bigint, out uncertain bigint
)
language plpgsql as $$
declare
  marked bigint[];
  ended  bigint;
  jobs   bigint[];
begin
  if not is_root then
    -- As long as this transaction is open, the holder of a job must not have its recipients go on in another job,
    -- which would not be cancelled. Workers do not wait for a lease that is locked.
    perform from pushq.lease l where l.queue_id = q and l.job_id = any (ids) for no key update;
  end if;
  -- One statement reads both tables: between two statements, a job can be claimed, or come back as a retry.
  insert into pushq.cancelled (queue_id, id, due_at)
  select q, k.id, greatest(now(), max(nullif(w.run_at, 'infinity')))
  from (
    select b.root_id, b.job_id from pushq.body b where is_root and b.queue_id = q and b.root_id = any (ids)
    union all
    select i, i from unnest(ids) i where not is_root) k(id, job_id)
  cross join lateral (
    select j.run_at from pushq.job j where j.queue_id = q and j.id = k.job_id
    union all
    select l.run_at from pushq.lease l where l.queue_id = q and l.job_id = k.job_id) w
  group by k.id
  on conflict do nothing;
  marked := array(select x.id from pushq.cancelled x where x.queue_id = q and x.id = any (ids));
  for ended in select i from unnest(ids) i where i <> all (marked) loop
    raise warning '% % has ended: there is nothing left to cancel', case when is_root then 'send' else 'job' end, ended;
  end loop;
  stopped := 0;
  held := 0;
  uncertain := 0;
  if marked = '{}' then
    return;
  end if;
  jobs := case when is_root
               then array(select b.job_id from pushq.body b where b.queue_id = q and b.root_id = any (marked))
               else marked end;
  -- An earlier holder may have sent to a recipient below the watermark that has no outcome. Once sends of a job were
  -- lost, it may have sent to all.
  with due as (
    update pushq.job j
    -- As in `pushq.make_cancelled_due`.
    set run_at = least(j.run_at, now(), case when j.run_at = 'infinity' then pushq.undecided_since(j.queue_id) end)
    where j.queue_id = q and j.id = any (jobs)
    returning j.recipient_count, j.outcomes,
              case when j.losses > 0 and not j.at_most_once then j.recipient_count else j.watermark end as sent_below)
  select coalesce(sum(w.waiting) filter (where n >= d.sent_below), 0),
         coalesce(sum(w.waiting) filter (where n < d.sent_below), 0)
  into stopped, uncertain
  from due d
  cross join lateral generate_series(0, d.recipient_count - 1) n
  cross join lateral (
    select case when d.outcomes is null or get_byte(d.outcomes, n) = 0 then 1 else 0 end as waiting) w;
  select coalesce(sum((
           select count(*) from generate_series(0, l.recipient_count - 1) n where get_byte(l.outcomes, n) = 0)), 0)
  into held
  from pushq.lease l
  where l.queue_id = q and l.job_id = any (jobs);
  perform pushq.reinstate_replaced(q, jobs);
  -- A job that waits has no worker that could be told.
  perform pushq.tell('root', i)
  from unnest(marked) i
  where is_root or exists (select from pushq.lease l where l.queue_id = q and l.job_id = i);
  perform pushq.wake(q);
  if uncertain > 0 then
    raise warning '% recipients may have got the push before, and no answer is known: they end as unknown', uncertain;
  end if;
end $$;
