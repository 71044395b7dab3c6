-- Showing jobs: what waits and is held, how a job ended, and which jobs need an operator's attention.

-- Waiting and held jobs, in the order in which they are claimed, `most` of them: of `queue`, or of all queues that the
-- caller may look at. Waiting jobs are read in the order of their index, no more than `most` of a queue, or of all,
-- however many there are.
create or replace function pushq.show_jobs(queue text, most bigint)
returns table (tenant text, app text, environment text, id bigint, state text, lane int, run_at timestamptz,
               send_by timestamptz, recipient_count smallint, attempt smallint, losses smallint, campaign_id bigint,
               root_id bigint, worker text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  perform pushq.check_row_limit(most);
  return query
  select n.tenant, n.app, n.environment, j.id, case when s.job_id is not null then 'set aside' else j.state end,
         j.lane, j.run_at, j.send_by, j.recipient_count, j.attempt, j.losses, j.campaign_id, j.root_id, w.name
  from (
    (select queue_id, id, 'waiting' as state, lane, run_at, send_by, recipient_count, attempt, losses, campaign_id,
            root_id, null::bigint as worker_id
     from pushq.job
     where ids is null
     order by queue_id, lane, run_at, id
     limit most)
    union all
    (select j.*
     from unnest(ids) q(id)
     cross join lateral (
       select queue_id, id, 'waiting', lane, run_at, send_by, recipient_count, attempt, losses, campaign_id, root_id,
              null::bigint
       from pushq.job
       where queue_id = q.id
       order by queue_id, lane, run_at, id
       limit most) j)
    union all
    (select queue_id, job_id, 'held', lane, run_at, send_by, recipient_count, attempt, losses, campaign_id, root_id,
            worker_id
     from pushq.lease
     where ids is null or queue_id = any (ids)
     order by queue_id, lane, run_at, job_id
     limit most)
    order by queue_id, lane, run_at, id
    limit most) j
  join pushq.queue_name n on n.queue_id = j.queue_id
  left join pushq.worker w on w.id = j.worker_id
  left join pushq.stuck_job s on s.queue_id = j.queue_id and s.job_id = j.id and s.set_aside_at is not null
  order by j.queue_id, j.lane, j.run_at, j.id;
end $$;

-- What is stored of a job after its end.
create or replace function pushq.show_job(queue text, job bigint)
returns table (root_id bigint, attempt smallint, ended_at timestamptz, delivered bigint, rejected bigint, failed bigint,
               suppressed bigint, expired bigint, cancelled bigint, unknown bigint, retried bigint, outcomes bytea)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  return query
  select r.root_id, r.attempt, r.ended_at, r.delivered::bigint, r.rejected::bigint, r.failed::bigint,
         r.suppressed::bigint, r.expired::bigint, r.cancelled::bigint, r.unknown::bigint, r.retried::bigint,
         r.outcomes
  from unnest(pushq.days_of('result')) k(day)
  cross join lateral (
    select x.*
    from pushq.result x
    where x.day = k.day and x.queue_id = ids[1] and x.job_id = show_job.job
    offset 0) r;
end $$;

-- Jobs with failed recipients that were not retried and are still kept, the latest first, with their reasons as code
-- and count, the most frequent first. Failures are the outcomes from `first` to `last`
-- (QueueCore/Outcome/Outcome.swift). The other arguments are conditions: `reason` keeps only jobs in which a recipient
-- failed for that reason, and `before` leaves out jobs that were listed already. `looking` limits how many jobs of each
-- queue, or of all queues, are searched; null for no limit. Only one of the two branches runs: each stops in the order
-- of its index.
create or replace function pushq.show_failed_jobs(
  queue text, most bigint, first int, last int, of_campaign text default null, reason int default null,
  since timestamptz default null, until timestamptz default null, before bigint default null,
  looking bigint default null)
returns table (tenant text, app text, environment text, job_id bigint, root_id bigint, campaign_key text,
               attempt smallint, ended_at timestamptz, failed smallint, codes int[], counts int[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  perform pushq.check_row_limit(most), pushq.check_row_limit(looking);
  if queue is not null and of_campaign is not null then
    perform pushq.expect_campaign(ids[1], queue, of_campaign);
  end if;
  return query
  select n.tenant, n.app, n.environment, r.job_id, r.root_id, c.key, r.attempt, r.ended_at, r.failed, why.codes,
         why.counts
  from (
    (select a.*
     from (
       select a.queue_id, a.job_id, a.root_id, a.attempt, a.ended_at, a.failed, a.outcomes, a.body_day
       from pushq.result a
       where ids is null and a.failed > 0 and a.retried_at is null and (before is null or a.job_id < before)
       order by a.job_id desc
       limit looking) a
     where (since is null or a.ended_at >= since) and (until is null or a.ended_at <= until)
       and exists (
         select from pushq.body b where b.day = a.body_day and b.queue_id = a.queue_id and b.job_id = a.job_id)
       and (of_campaign is null or exists (
         select from pushq.campaign o where o.queue_id = a.queue_id and o.id = a.root_id and o.key = of_campaign))
       and (reason is null or exists (
         select from generate_series(0, octet_length(a.outcomes) - 1) i
         where get_byte(a.outcomes, i) between first and last and get_byte(a.outcomes, i) & 63 = reason))
     order by a.job_id desc
     limit most)
    union all
    (select a.*
     from unnest(ids) q(id)
     cross join lateral (
       select a.*
       from (
         select a.queue_id, a.job_id, a.root_id, a.attempt, a.ended_at, a.failed, a.outcomes, a.body_day
         from pushq.result a
         where a.queue_id = q.id and a.failed > 0 and a.retried_at is null and (before is null or a.job_id < before)
         order by a.job_id desc
         limit looking) a
       where (since is null or a.ended_at >= since) and (until is null or a.ended_at <= until)
         and exists (
           select from pushq.body b where b.day = a.body_day and b.queue_id = a.queue_id and b.job_id = a.job_id)
         and (of_campaign is null or exists (
           select from pushq.campaign o where o.queue_id = a.queue_id and o.id = a.root_id and o.key = of_campaign))
         and (reason is null or exists (
           select from generate_series(0, octet_length(a.outcomes) - 1) i
           where get_byte(a.outcomes, i) between first and last and get_byte(a.outcomes, i) & 63 = reason))
       order by a.job_id desc
       limit most) a)
    order by job_id desc
    limit most) r
  cross join lateral (
    select array_agg(code order by n desc, code) as codes, array_agg(n order by n desc, code) as counts
    from (
      select get_byte(r.outcomes, i) & 63 as code, count(*)::int as n
      from generate_series(0, octet_length(r.outcomes) - 1) i
      where get_byte(r.outcomes, i) between first and last
      group by 1) w) why
  left join pushq.campaign c on c.queue_id = r.queue_id and c.id = r.root_id
  join pushq.queue_name n on n.queue_id = r.queue_id
  order by r.job_id desc;
end $$;

-- Jobs of a queue that wait or are held, and are not cancelled, by their numbers. The other arguments are conditions:
-- `reason` keeps only jobs that are retries because APNs refused a recipient for that reason, and `after` leaves out
-- jobs that were listed already. A retry for reason n has the outcome `retries` + n (QueueCore/Outcome/Outcome.swift).
create or replace function pushq.show_cancellable_jobs(
  queue text, most bigint, retries int, of_campaign text default null, reason int default null,
  since timestamptz default null, until timestamptz default null, after bigint default 0)
returns table (job_id bigint, recipient_count int)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q int := (pushq.readable_queues(queue))[1];
begin
  perform pushq.check_row_limit(most);
  if of_campaign is not null then
    perform pushq.expect_campaign(q, queue, of_campaign);
  end if;
  if retries::bigint + reason not between 0 and 255 then
    raise exception using errcode = 'PQ400', message = format('no reason has the code %s', reason),
      hint = 'pushq.reason(code) names those that there are';
  end if;
  return query
  select j.id, pushq.waiting_recipients(j.recipient_count, j.outcomes)::int
  from (
    select w.id, w.root_id, w.campaign_id, w.body_day, w.recipient_count, w.outcomes, w.attempt, w.run_at
    from pushq.job w
    where w.queue_id = q and w.id > after
    union all
    select l.job_id, l.root_id, l.campaign_id, l.body_day, l.recipient_count, l.outcomes, l.attempt, l.run_at
    from pushq.lease l
    where l.queue_id = q and l.job_id > after) j
  left join pushq.campaign c on c.queue_id = q and c.id = j.campaign_id
  where c.cancelled_at is null
    and not exists (select from pushq.cancelled x where x.queue_id = q and x.id in (j.id, j.root_id))
    and (of_campaign is null or c.key = of_campaign)
    and (since is null or j.run_at >= since) and (until is null or j.run_at <= until)
    -- A recipient of this job got that answer in an earlier job of the root: one with an attempt less, or with the same
    -- attempt if its push was lost.
    and (reason is null or exists (
      select
      from pushq.body own
      join pushq.result r on r.queue_id = q and r.root_id = j.root_id
        and r.attempt between j.attempt - 1 and j.attempt
        and position(set_byte(E'\\x00'::bytea, 0, retries + reason) in r.outcomes) > 0
      join pushq.body before on before.day = r.body_day and before.queue_id = q and before.job_id = r.job_id
        and before.first_device_id <= own.last_device_id and before.last_device_id >= own.first_device_id
      cross join lateral generate_series(0, octet_length(r.outcomes) - 1) n
      where own.day = j.body_day and own.queue_id = q and own.job_id = j.id
        and get_byte(r.outcomes, n) = retries + reason and before.device_ids[n + 1] = any (own.device_ids)))
  order by j.id
  limit most;
end $$;

-- Jobs that were set aside because PostgreSQL refuses their end, the latest first.
create or replace function pushq.show_stuck_jobs(queue text, most bigint)
returns table (tenant text, app text, environment text, job_id bigint, root_id bigint, campaign_key text,
               recipient_count smallint, send_by timestamptz, tries smallint, set_aside_at timestamptz, problem text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  perform pushq.check_row_limit(most);
  return query
  select n.tenant, n.app, n.environment, s.job_id, j.root_id, c.key, j.recipient_count, j.send_by, s.tries,
         s.set_aside_at, s.problem
  from pushq.stuck_job s
  join pushq.job j on j.queue_id = s.queue_id and j.id = s.job_id
  join pushq.queue_name n on n.queue_id = s.queue_id
  left join pushq.campaign c on c.queue_id = j.queue_id and c.id = j.campaign_id
  where s.set_aside_at is not null and (ids is null or s.queue_id = any (ids))
  order by s.set_aside_at desc, s.job_id desc
  limit most;
end $$;
