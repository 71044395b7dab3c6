-- Showing campaigns and sends: their progress, the outcomes of their recipients, and why they do not move.

-- The latest campaigns first, `most` of them: of all queues, of `queue`, or the one with `key`. Campaigns are kept for
-- years, so each branch reads no more than `budget` rows from an index, for each queue or for all, and only one branch
-- runs. With `matching`, those whose keys contain it, and with `in_state`, those in that state: both search the latest
-- 10,000. `too_many_bad` says in words that a campaign has ended with more bad answers than it allows. Of `cancelled`,
-- `in_no_job` recipients of a list were in no job yet, and so in no share. Of `failed`, `failed_in_jobs` are in jobs
-- that have not ended yet: they cannot be retried before.
create or replace function pushq.show_campaigns(
  queue text, key text, most bigint, matching text default null, in_state text default null
)
returns table (tenant text, app text, environment text, campaign_key text, campaign_id bigint, state text, total bigint,
               waiting bigint, delivered bigint, rejected bigint, failed bigint, suppressed bigint, expired bigint,
               cancelled bigint, unknown bigint, retried bigint, finished boolean, created_at timestamptz,
               fanned_out_at timestamptz, cut_short boolean, max_rate float8, stop_at_errors float8,
               paused_reason text, filter text, local_time text, next_wave_at timestamptz, left_out bigint,
               held_out bigint, in_quiet_hours bigint, released_at timestamptz, too_many_bad text,
               in_no_job bigint, starts_at timestamptz, failed_in_jobs bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids    int[]  := pushq.readable_queues(queue);
  budget bigint := case when matching is null and in_state is null then most else greatest(most, 10000) end;
begin
  perform pushq.check_row_limit(most),
          pushq.check_state(in_state, array['scheduled', 'running', 'paused', 'finished', 'cancelled']);
  return query
  select n.tenant, n.app, n.environment, c.key, c.campaign_id, c.state, c.total, c.waiting, c.delivered,
         c.rejected, c.failed, c.suppressed, c.expired, c.cancelled, c.unknown, c.retried, c.finished, c.created_at,
         c.fanned_out_at,
         c.cancelled_at is not null and exists (
           select from pushq.fan_out f
           where f.queue_id = c.queue_id and f.campaign_id = c.campaign_id and f.list_id is null
             and f.done_at = c.cancelled_at),
         c.max_rate, c.stop_at_errors::float8, c.paused_reason, c.filter,
         concat_ws('T', w.clock ->> 'day', w.clock ->> 'time'),
         -- At its end, the waves that would have come later are not sent.
         case when w.sorted and not w.done and w.start_at < w.send_by then w.start_at end,
         w.left_out, w.held_out, h.recipients, h.released_at,
         case when c.state = 'finished' and c.stop_at_errors is not null then (
           select pushq.too_many_bad(x) from pushq.campaign x where x.queue_id = k.queue_id and x.id = k.id) end,
         w.not_made, c.starts_at, c.failed_in_jobs
  from (
    (select queue_id, id
     from pushq.campaign
     where ids is null and show_campaigns.key is null
     order by id desc
     limit budget)
    union all
    -- `between`, and the order by both columns: if the queue were given with `=`, the index of all campaigns would look
    -- equally good to the planner.
    (select c.queue_id, c.id
     from unnest(case when show_campaigns.key is null then ids end) q(id)
     cross join lateral (
       select queue_id, id
       from pushq.campaign
       where queue_id between q.id and q.id
       order by queue_id desc, id desc
       limit budget) c
     order by c.id desc
     limit budget)
    union all
    (select c.queue_id, c.id
     from unnest(case when show_campaigns.key is not null then ids end) q(id)
     join pushq.campaign c on c.queue_id = q.id and c.key = show_campaigns.key)) k
  join pushq.campaign_progress c on c.queue_id = k.queue_id and c.campaign_id = k.id
  join pushq.queue_name n on n.queue_id = c.queue_id
  join pushq.fan_out w on w.queue_id = k.queue_id and w.campaign_id = k.id
  cross join lateral pushq.quiet_recipients(k.queue_id, k.id) h
  where (matching is null or position(lower(matching) in lower(c.key)) > 0)
    and (in_state is null or c.state = in_state)
  order by c.campaign_id desc
  limit most;
end $$;

-- Why recipients of a root did not get the push: outcomes and their numbers. These are final refusals, except failures
-- that were retried by hand; recipients for which a personal message could not be built; and recipients that a
-- frequency cap or quiet hours held back. The other arguments are ranges of outcomes: rejections from `first` to
-- `last_rejection`, then failures up to `last_failure`, and those held back from `first_unfit` to `last_unfit`
-- (QueueCore/Outcome/Outcome.swift).
create or replace function pushq.show_refusals(
  queue text, root bigint, first int, last_rejection int, last_failure int, first_unfit int, last_unfit int
) returns table (outcome int, count bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  return query
  select b.outcome, count(*)
  from (
    select r.outcomes, r.retried_at
    from pushq.result r
    where r.queue_id = ids[1] and r.root_id = root and r.rejected + r.failed + r.suppressed > 0
    union all
    -- The counts include the outcomes in jobs that have not ended (views/campaign_progress.sql).
    select j.outcomes, null
    from pushq.job j
    where j.queue_id = ids[1] and j.root_id = root and j.outcomes is not null
    union all
    select l.outcomes, null
    from pushq.lease l
    where l.queue_id = ids[1] and l.root_id = root and btrim(l.outcomes, E'\\x00') <> '') r
  cross join lateral generate_series(0, octet_length(r.outcomes) - 1) i
  cross join lateral get_byte(r.outcomes, i) b(outcome)
  where (b.outcome between first and case when r.retried_at is null then last_failure else last_rejection end
         or b.outcome between first_unfit and last_unfit)
  group by 1;
end $$;

-- When the last job of a root ended.
create or replace function pushq.show_last_end(queue text, root bigint) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ids int[] := pushq.readable_queues(queue);
begin
  return (select max(r.ended_at) from pushq.result r where r.queue_id = ids[1] and r.root_id = root);
end $$;

-- The number of a root's devices and the first one; how many wait, and the outcomes of the others; why it has no
-- devices; whether it was cancelled.
create or replace function pushq.show_send(
  queue text, root bigint, out total bigint, out waiting bigint, out first_device_id bigint, out delivered bigint,
  out rejected bigint, out failed bigint, out suppressed bigint, out expired bigint, out cancelled bigint,
  out unknown bigint, out retried bigint, out why_nobody text, out is_cancelled boolean, out awaits_recipients boolean,
  out in_quiet_hours bigint, out released_at timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  select s.total, s.waiting, s.first_device_id, s.delivered, s.rejected, s.failed, s.suppressed, s.expired, s.cancelled,
         s.unknown, s.retried, s.why_nobody, s.is_cancelled, s.awaits_recipients, s.in_quiet_hours, s.released_at
  into total, waiting, first_device_id, delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried,
       why_nobody, is_cancelled, awaits_recipients, in_quiet_hours, released_at
  from pushq.send_progress((pushq.readable_queues(queue))[1], root) s;
end $$;

-- The same for queue `q`, for functions that have checked their caller. What waits is counted by its jobs, because a
-- retry may wait longer than the first jobs' recipients and outcomes are kept. The counts include the outcomes in jobs
-- that have not ended, as those of a campaign do (`campaign_progress`).
create or replace function pushq.send_progress(
  q int, root bigint, out total bigint, out waiting bigint, out first_device_id bigint, out delivered bigint,
  out rejected bigint, out failed bigint, out suppressed bigint, out expired bigint, out cancelled bigint,
  out unknown bigint, out retried bigint, out why_nobody text, out is_cancelled boolean, out awaits_recipients boolean,
  out in_quiet_hours bigint, out released_at timestamptz
)
language plpgsql stable as $$
#variable_conflict use_column
begin
  select coalesce(sum(r.delivered), 0), coalesce(sum(r.rejected), 0),
         coalesce(sum(r.failed) filter (where r.retried_at is null), 0),
         coalesce(sum(r.suppressed), 0), coalesce(sum(r.expired), 0), coalesce(sum(r.cancelled), 0),
         coalesce(sum(r.unknown), 0),
         coalesce(sum(r.retried + case when r.retried_at is null then 0 else r.failed end), 0)
  into delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried
  from pushq.result r
  where r.queue_id = q and r.root_id = root;
  select coalesce(sum(b.recipients) filter (where b.slice = 0), 0),
         coalesce(sum(b.recipients - o.ended) filter (where w.is_open), 0),
         (array_agg(b.first_device_id order by b.slice desc, b.first_device_id) filter (where b.recipients > 0))[1],
         coalesce(bool_or(b.recipients = 0), false),
         send_progress.delivered + coalesce(sum(o.delivered), 0),
         send_progress.rejected + coalesce(sum(o.rejected), 0),
         send_progress.failed + coalesce(sum(o.failed), 0),
         send_progress.suppressed + coalesce(sum(o.suppressed), 0),
         send_progress.expired + coalesce(sum(o.expired), 0),
         send_progress.cancelled + coalesce(sum(o.cancelled), 0),
         send_progress.unknown + coalesce(sum(o.unknown), 0)
  into total, waiting, first_device_id, awaits_recipients, delivered, rejected, failed, suppressed, expired, cancelled,
       unknown
  from (
    select b.job_id, b.slice, b.first_device_id, cardinality(b.device_ids) as recipients
    from pushq.body b
    where b.queue_id = q and b.root_id = root) b
  left join lateral (
    select true as is_open, j.outcomes from pushq.job j where j.queue_id = q and j.id = b.job_id
    union all
    select true, l.outcomes from pushq.lease l where l.queue_id = q and l.job_id = b.job_id) w on true
  -- Recipients that have gone on to another job have ended here.
  cross join lateral pushq.outcome_counts(w.outcomes) o;
  total := greatest(
    total, waiting + delivered + rejected + failed + suppressed + expired + cancelled + unknown);
  select (select e.why from pushq.empty_send e where e.queue_id = q and e.root_id = root),
         exists (select from pushq.cancelled x where x.queue_id = q and x.id = root)
  into why_nobody, is_cancelled;
  -- In a scheduled send to several users, some may have had no device while others were reached.
  if total > 0 or awaits_recipients then
    why_nobody := null;
  end if;
  select h.recipients, h.released_at into in_quiet_hours, released_at from pushq.quiet_recipients(q, root) h;
end $$;

-- What may keep a campaign or a send from moving. Workers write a heartbeat every five seconds. Only the first thousand
-- jobs of a send are looked at.
create or replace function pushq.show_standstill(queue text, root bigint)
returns table (paused_reason text, awaits_credential boolean, tenant text, tenant_is_suspended boolean,
               lacks_credential boolean, campaign_key text, campaign_is_paused boolean, campaign_paused_reason text,
               alive boolean, serving boolean, cut_off text, in_outage text, refusal text, unusable text, fault text,
               credential text, set_aside bigint, due_at timestamptz, awaits_decision boolean,
               is_cancelled boolean, prevented text, prevention text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  return query
  select q.paused_reason, q.paused_credential_version is not null, n.tenant, n.suspended_at is not null,
         q.credential_id is null, c.key, c.paused_at is not null, c.paused_reason, t.alive, t.serving, t.cut_off,
         t.in_outage, t.refusal, t.unusable, t.fault,
         (select p.name from pushq.credential p where p.tenant_id = q.tenant_id and p.id = q.credential_id),
         x.set_aside,
         -- A push that is due within moments, as in a campaign with a rate, is not held up.
         case when s.due > now() + interval '5 seconds' then s.due end,
         exists (select from pushq.restored_queue r where r.queue_id = q.id),
         c.cancelled_at is not null
           or exists (select from pushq.cancelled k where k.queue_id = q.id and k.id = root),
         t.prevented, t.prevention
  from pushq.queue q
  join pushq.queue_name n on n.queue_id = q.id
  left join pushq.campaign c on c.queue_id = q.id and c.id = root
  cross join lateral pushq.worker_trouble(q.id) t
  cross join lateral (
    select min(due) as due
    from (
      select f.start_at as due
      from pushq.fan_out f
      where f.queue_id = q.id and f.campaign_id = root and not f.done
      union all
      select j.run_at
      from (
        select b.job_id
        from pushq.body b
        where b.queue_id = q.id and b.root_id = root
        order by b.slice, b.first_device_id
        limit 1000) b
      join pushq.job j on j.queue_id = q.id and j.id = b.job_id
      where j.run_at < 'infinity'
      union all
      -- What workers hold was due when they took it.
      select l.run_at
      from pushq.lease l
      where l.queue_id = q.id and l.root_id = root) d) s
  cross join lateral (
    select count(*) as set_aside
    from pushq.stuck_job k
    join pushq.job j on j.queue_id = k.queue_id and j.id = k.job_id
    where k.queue_id = q.id and k.set_aside_at is not null and j.root_id = root) x
  where q.id = ids[1];
end $$;

-- The outcomes of a campaign or send over time. It takes the `most` jobs that were created last, in up to 60 intervals
-- of equal length, each with the counts of the jobs that ended in it. `seconds` is the length of an interval. `reasons`
-- says why recipients did not get the push, as in `show_refusals`: an outcome, its number, the next outcome, and so on,
-- for up to 500 of these jobs. It covers all intervals together, and is in the first row.
create or replace function pushq.show_timeline(
  queue text, root bigint, most int, first int, last_rejection int, last_failure int, first_unfit int,
  last_unfit int
) returns table (starts_at timestamptz, seconds float8, is_partial boolean, delivered bigint, rejected bigint,
                 failed bigint, suppressed bigint, expired bigint, cancelled bigint, unknown bigint, reasons int[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  perform pushq.check_row_limit(most);
  return query
  with ended as materialized (
    select r.ended_at, r.delivered, r.rejected, r.failed, r.suppressed, r.expired, r.cancelled, r.unknown, r.outcomes,
           r.retried_at
    from pushq.result r
    where r.queue_id = ids[1] and r.root_id = root
    order by r.job_id desc
    limit most),
  span as materialized (
    select min(ended_at) as start, count(*) as jobs,
           greatest(ceil(extract(epoch from max(ended_at) - min(ended_at)) / 60), 1)::float8 as width
    from ended),
  refusals as materialized (
    select b.outcome, count(*) as n
    from (select * from ended where rejected + failed + suppressed > 0 limit 500) e
    cross join lateral generate_series(0, octet_length(e.outcomes) - 1) i
    cross join lateral get_byte(e.outcomes, i) b(outcome)
    where b.outcome between first and case when e.retried_at is null then last_failure else last_rejection end
      or b.outcome between first_unfit and last_unfit
    group by 1)
  select s.start + make_interval(secs => s.width * i.place), s.width, s.jobs >= most, i.delivered, i.rejected, i.failed,
         i.suppressed, i.expired, i.cancelled, i.unknown,
         case when row_number() over (order by i.place) = 1 then (
           select coalesce(array_agg(x.n order by f.n desc, f.outcome, x.place), '{}')::int[]
           from refusals f
           cross join lateral (values (1, f.outcome::bigint), (2, f.n)) x(place, n)) else '{}' end
  from span s
  cross join lateral (
    select floor(extract(epoch from e.ended_at - s.start) / s.width)::int as place,
           sum(e.delivered)::bigint as delivered, sum(e.rejected)::bigint as rejected,
           coalesce(sum(e.failed) filter (where e.retried_at is null), 0)::bigint as failed,
           sum(e.suppressed)::bigint as suppressed, sum(e.expired)::bigint as expired,
           sum(e.cancelled)::bigint as cancelled, sum(e.unknown)::bigint as unknown
    from ended e
    group by 1) i
  order by i.place;
end $$;
