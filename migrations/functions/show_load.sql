-- The load of queues: what waits in them and since when, and what workers have sent for them in the last seconds. It is
-- for a screen that is refreshed all the time, however much waits and however many queues there are.
--
-- Of all queues that the caller may look at, of one tenant or with `matching` in their names, it shows the `most`
-- important ones. Queues with something due, something sent or a pause come first, by the age of what waits and by what
-- is sent in turn; the others follow by name. `queues` is the total number.
--
-- A loose scan of `job_ready` finds the first job of each lane, so the age of the oldest waiting job is exact. Waiting
-- jobs are counted for the queues that are shown: about 20,000 jobs in all of them, at least 50 of each lane, in the
-- 1000 lanes that wait longest. `is_partial` says that there are more. For 10,000 queues with jobs in one lane each, it
-- takes about 60 ms. `unbegun` campaigns have started, but no worker has looked at their devices yet: the number of
-- their waiting recipients is not known.
--
-- It is planned for each call. A kept plan does not know how many lanes have something due, and joined 10,000 of them
-- to as many queues one by one, which took nine seconds.
--
-- `sent_per_second` is over the last seconds of each worker. `refused` has the code of a reason, its number, the next
-- code, and so on; `latency` counts answers by duration, as each worker does.
create or replace function pushq.show_load(tenant text, matching text, most int)
returns table (tenant_name text, app text, environment text, queues bigint, rate float8, tenant_rate float8,
               paused_reason text, is_suspended boolean, has_credential boolean, jobs bigint, recipients bigint,
               is_partial boolean, oldest timestamptz, unbegun bigint, workers bigint, in_flight bigint,
               sent_per_second float8, seconds float8, accepted bigint, unanswered bigint, refused int[],
               latency int[], unreachable bigint, in_outage bigint, unusable bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  ids       int[] := pushq.readable_queues(null, show_load.tenant);
  -- The lanes with something due, and since when.
  of_queues int[];
  of_lanes  int[];
  of_times  timestamptz[];
begin
  perform pushq.check_row_limit(most);
  if ids is null then
    with recursive first_job as (
      select n.* from pushq.next_lane(-1, 0, 2147483647) n
      union all
      select n.* from first_job f cross join lateral pushq.next_lane(f.queue_id, f.lane, 2147483647) n)
    select array_agg(f.queue_id), array_agg(f.lane), array_agg(f.run_at)
    into of_queues, of_lanes, of_times
    from (select * from first_job limit 30000) f
    where f.run_at <= now();
  else
    select array_agg(q.id), array_agg(f.lane), array_agg(f.run_at)
    into of_queues, of_lanes, of_times
    from unnest(ids) q(id)
    cross join lateral (
      with recursive first_job as (
        select n.* from pushq.next_lane(q.id, -1, q.id) n
        union all
        select n.* from first_job f cross join lateral pushq.next_lane(q.id, f.lane, q.id) n)
      select f.lane, f.run_at from first_job f) f
    where f.run_at <= now();
  end if;
  return query
  with due as materialized (
    select queue_id, lane, since from unnest(of_queues, of_lanes, of_times) u(queue_id, lane, since)),
  waiting as materialized (
    select d.queue_id, min(d.since) as since from due d group by d.queue_id),
  unbegun as materialized (
    select f.queue_id, min(f.start_at) as since, count(*) as campaigns
    from (
      select f.queue_id, f.start_at, pushq.is_unbegun(f) as is_unbegun
      from pushq.fan_out f
      where not f.done and not f.paused and f.start_at <= now() and (ids is null or f.queue_id = any (ids))
      limit 10000) f
    where f.is_unbegun
    group by f.queue_id),
  sending as materialized (
    select t.queue_id, count(*) as workers, sum(t.in_flight) as in_flight,
           sum(t.sent / greatest(t.seconds, 0.001)::float8) as sent_per_second, max(t.seconds)::float8 as seconds,
           sum(t.accepted) as accepted, sum(t.unanswered) as unanswered
    from pushq.throughput t
    where (ids is null or t.queue_id = any (ids)) and t.shown_at > now() - interval '15 seconds'
    group by t.queue_id),
  ranked as materialized (
    select k.*, count(*) over () as queues,
           case when k.since is not null then row_number() over (order by k.since) end as by_age,
           case when k.workers is not null then row_number() over (order by k.sent_per_second desc nulls last) end
             as by_sent
    from (
      select n.queue_id, n.tenant_id, n.tenant, n.app, n.environment, n.name, n.suspended_at,
             least(w.since, u.since) as since, coalesce(u.campaigns, 0) as unbegun, s.workers,
             s.in_flight, s.sent_per_second, s.seconds, s.accepted, s.unanswered,
             w.since is not null or u.since is not null or s.workers is not null or q.paused_at is not null as is_busy,
             case when q.paused_at is not null then q.paused_reason end as paused_reason,
             q.credential_id is not null as has_credential
      from pushq.queue_name n
      join pushq.queue q on q.id = n.queue_id
      left join waiting w on w.queue_id = n.queue_id
      left join unbegun u on u.queue_id = n.queue_id
      left join sending s on s.queue_id = n.queue_id
      where (ids is null or n.queue_id = any (ids))
        and (matching is null or position(lower(matching) in lower(n.name)) > 0)) k),
  shown as materialized (
    select * from ranked r order by r.is_busy desc, least(r.by_age, r.by_sent), r.name limit most),
  counted as materialized (
    select d.queue_id, d.lane, count(*) over () as lanes
    from due d join shown s on s.queue_id = d.queue_id
    order by d.since
    limit 1000),
  bound as materialized (
    select greatest(20000 / greatest(count(*), 1), 50) as rows from counted),
  backlog as materialized (
    select c.queue_id, sum(w.jobs)::bigint as jobs, sum(w.recipients)::bigint as recipients,
           bool_or(w.jobs >= b.rows or c.lanes > 1000) as is_partial
    from counted c
    cross join bound b
    cross join lateral (
      select count(*) as jobs, coalesce(sum(pushq.waiting_recipients(j.recipient_count, j.outcomes)), 0) as recipients
      from (
        select j.recipient_count, j.outcomes
        from pushq.job j
        where j.queue_id = c.queue_id and j.lane = c.lane and j.run_at <= now()
        order by j.run_at, j.id
        limit b.rows) j) w
    group by c.queue_id)
  select s.tenant, s.app, s.environment, s.queues, r.rate, p.rate, s.paused_reason,
         s.suspended_at is not null, s.has_credential,
         coalesce(b.jobs, 0), coalesce(b.recipients, 0),
         coalesce(b.is_partial or s.unbegun > 0, s.since is not null), s.since, s.unbegun,
         coalesce(s.workers, 0), coalesce(s.in_flight, 0), coalesce(s.sent_per_second, 0), coalesce(s.seconds, 0),
         coalesce(s.accepted, 0), coalesce(s.unanswered, 0), coalesce(o.refused, '{}'), coalesce(a.latency, '{}'),
         f.unreachable, f.in_outage, f.unusable
  from shown s
  left join backlog b on b.queue_id = s.queue_id
  left join pushq.rate_limit r on r.tenant_id = s.tenant_id and r.queue_id = s.queue_id and r.campaign_id = 0
  left join pushq.rate_limit p on p.tenant_id = s.tenant_id and p.queue_id = 0 and p.campaign_id = 0
  cross join lateral (
    select array_agg(x.n order by c.total desc, c.code, x.place)::int[] as refused
    from (
      select t.refused[i] as code, sum(t.refused[i + 1]) as total
      from pushq.throughput t
      cross join lateral generate_series(1, cardinality(t.refused), 2) i
      where s.workers is not null and t.queue_id = s.queue_id and t.shown_at > now() - interval '15 seconds'
      group by 1) c
    cross join lateral (values (1, c.code::bigint), (2, c.total)) x(place, n)) o
  cross join lateral (
    select array_agg(c.total order by c.place)::int[] as latency
    from (
      select u.place, sum(u.n) as total
      from pushq.throughput t
      cross join lateral unnest(t.latency) with ordinality u(n, place)
      where s.workers is not null and t.queue_id = s.queue_id and t.shown_at > now() - interval '15 seconds'
      group by u.place) c) a
  cross join lateral (
    select count(*) filter (where s.queue_id = any (w.unreachable)) as unreachable,
           count(*) filter (where s.queue_id = any (w.in_outage)) as in_outage,
           count(*) filter (where s.queue_id = any (w.unusable)) as unusable
    from pushq.worker w
    where pushq.is_alive(w.seen_at)) f
  order by s.is_busy desc, least(s.by_age, s.by_sent), s.name;
end $$;
