-- Cancelling a send, a broadcast or a job.

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
  select * into stopped, held, uncertain from pushq.stop_jobs(q, send, is_root => true);
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
    and not exists (select from pushq.result r where r.queue_id = q and r.job_id = cancel_job.job) then
    raise exception using errcode = 'PQ404',
      message = format('there is no job %s in queue “%s”, or it is no longer kept', coalesce(job::text, 'null'), queue),
      hint = 'list them with: pushq-admin job list';
  end if;
  was_cancelled := exists (select from pushq.cancelled x where x.queue_id = q and x.id = job);
  select * into stopped, held, uncertain from pushq.stop_jobs(q, job, is_root => false);
  if not was_cancelled and stopped + held + uncertain > 0 then
    perform pushq.note_cancellation(q, 'job', job, stopped + held + uncertain);
  end if;
end $$;

-- Records that a send or a job is cancelled, and makes its waiting jobs due at once. Records nothing if it has ended:
-- it was sent before the call, and its failed recipients may be retried. `uncertain` recipients, in waiting jobs, may
-- have been sent to, because a worker was lost or got no answer; they will not be sent to again, and end as unknown.
create or replace function pushq.stop_jobs(
  q int, id bigint, is_root boolean, out stopped bigint, out held bigint, out uncertain bigint
)
language plpgsql as $$
declare
  jobs bigint[];
begin
  if not is_root then
    -- As long as this transaction is open, the holder of the job must not have its recipients go on in another job,
    -- which would not be cancelled. Workers do not wait for a lease that is locked.
    perform from pushq.lease l where l.queue_id = q and l.job_id = stop_jobs.id for no key update;
  end if;
  -- One statement reads both tables: between two statements, a job can be claimed, or come back as a retry.
  insert into pushq.cancelled (queue_id, id, due_at)
  select q, stop_jobs.id, greatest(now(), max(nullif(w.run_at, 'infinity')))
  from (
    select b.job_id from pushq.body b where is_root and b.queue_id = q and b.root_id = stop_jobs.id
    union all
    select stop_jobs.id where not is_root) k
  cross join lateral (
    select j.run_at from pushq.job j where j.queue_id = q and j.id = k.job_id
    union all
    select l.run_at from pushq.lease l where l.queue_id = q and l.job_id = k.job_id) w
  having count(*) > 0
  on conflict do nothing;
  if not found and not exists (select from pushq.cancelled x where x.queue_id = q and x.id = stop_jobs.id) then
    raise warning '% % has ended: there is nothing left to cancel', case when is_root then 'send' else 'job' end, id;
    stopped := 0;
    held := 0;
    uncertain := 0;
    return;
  end if;
  jobs := case when is_root
               then array(select b.job_id from pushq.body b where b.queue_id = q and b.root_id = stop_jobs.id)
               else array[stop_jobs.id] end;
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
  perform pushq.tell('root', stop_jobs.id);
  perform pushq.wake(q);
  if uncertain > 0 then
    raise warning '% recipients may have got the push before, and no answer is known: they end as unknown', uncertain;
  end if;
end $$;
