-- How a worker finds work.
--
-- All campaigns and sends of a queue share lanes 0, 1 and 2. Each higher lane belongs to one campaign.

-- The campaign that has this lane for itself, and its rate; no row for a shared lane. The planner inlines this into the
-- calling query.
create or replace function pushq.own_lane(of_queue int, of_lane int)
returns table (campaign_id bigint, rate float8)
language sql stable as $$
  select f.campaign_id, r.rate
  from pushq.fan_out f
  join pushq.queue q on q.id = f.queue_id
  left join pushq.rate_limit r
    on r.tenant_id = q.tenant_id and r.queue_id = f.queue_id and r.campaign_id = f.campaign_id
  where of_lane > 2 and f.queue_id = of_queue and f.lane = of_lane and f.lane > 2
  limit 1
$$;

-- The microseconds until a time; null for never. The planner inlines this, too.
create or replace function pushq.microseconds_until(moment timestamptz) returns bigint
language sql stable as $$
  select case when moment <> 'infinity' then (extract(epoch from moment - now()) * 1000000)::bigint end
$$;

-- The first lane with a job after (after_queue, after_lane), in queues up to `last_queue`, and its first job; no row if
-- there is none. A query that calls this again and again for the lane that it found last is a loose scan of
-- `job_ready`: one probe for each lane, 0.9 ms for 150 lanes among 10,000 queues, while probing every queue and lane
-- took 79 ms. The planner inlines it. The end is a queue and not a lane, because an index scan stops at a bound of its
-- first column; with a pair, it would read the last lane to its end.
create or replace function pushq.next_lane(after_queue int, after_lane int, last_queue int)
returns table (queue_id int, lane int, run_at timestamptz, id bigint)
language sql stable as $$
  select j.queue_id, j.lane, j.run_at, j.id
  from pushq.job j
  where (j.queue_id, j.lane) > (after_queue, after_lane) and j.queue_id <= last_queue
  order by j.queue_id, j.lane, j.run_at, j.id
  limit 1
$$;

-- The same for campaigns that have jobs to create: the first one of the next lane. The campaigns of a lane fan out one
-- after the other.
create or replace function pushq.next_fan_out(after_queue int, after_lane int, last_queue int)
returns table (queue_id int, lane int, start_at timestamptz, campaign_id bigint)
language sql stable as $$
  select f.queue_id, f.lane, f.start_at, f.campaign_id
  from pushq.fan_out f
  where not f.done and not f.paused and (f.queue_id, f.lane) > (after_queue, after_lane) and f.queue_id <= last_queue
  order by f.queue_id, f.lane, f.start_at, f.campaign_id
  limit 1
$$;

-- The number of a lane's due jobs from (from_run_at, from_id) on, counted up to `count_to`. The planner inlines this,
-- too.
create or replace function pushq.due_jobs(
  of_queue int, of_lane int, from_run_at timestamptz, from_id bigint, count_to int)
returns table (ready int)
language sql stable as $$
  select count(*)::int
  from (
    select
    from pushq.job j
    where j.queue_id = of_queue and j.lane = of_lane and j.run_at <= now()
      and (j.run_at, j.id) >= (from_run_at, from_id)
    limit count_to) r
$$;

-- The (queue, lane) pairs that have jobs, and the campaigns that have jobs to create. For a lane that belongs to one
-- campaign, also the campaign and its rate.
--
-- The scan begins after (after_queue, after_lane), wraps around at the end, and stops after `pairs`: a caller that
-- begins where the last call ended gets all pairs in turn. The same applies to campaigns, of which there may be
-- thousands: it returns the first of each pair, and as many as `pairs`. It counts their ready jobs up to `count_to`,
-- which is the most expensive part if many campaigns are fanning out; with 0 it skips campaigns. It is in plpgsql, so
-- that `fit_plans` runs before the plans are used.
--
-- Each probe uses an index that has the order, whatever the statistics say. Once, when thousands of queues got work at
-- the same time, the statistics still said that all jobs were of a single queue. Sorting the few other jobs looked as
-- cheap, so each probe read all of them: a poll of 9000 lanes took nine seconds, in which the worker sent nothing.
--
-- A worker calls this before it claims anything. So a restore of the database is detected here, even behind a pooler,
-- which keeps the worker's session.
create or replace function pushq.ready_work(after_queue int, after_lane int, pairs int, count_to int)
returns table (queue_id int, lane int, campaign_id bigint, ready int, due_in bigint, run_at timestamptz, id bigint,
               own_campaign bigint, own_rate float8)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  from_queue int      := after_queue;
  from_lane  int      := after_lane;
  to_queue   int      := 2147483647;
  to_lane    int      := 2147483647;
  campaigns  int      := pairs;
  seen       int;
begin
  perform pushq.follow_lineage();
  perform pushq.fit_plans();
  loop
    return query
      with recursive due as (
        select n.* from pushq.next_lane(from_queue, from_lane, to_queue) n
        where (n.queue_id, n.lane) <= (to_queue, to_lane)
        union all
        select n.* from due d cross join lateral pushq.next_lane(d.queue_id, d.lane, to_queue) n
        where (n.queue_id, n.lane) <= (to_queue, to_lane))
      select d.queue_id, d.lane, null::bigint, 0,
             pushq.microseconds_until(d.run_at),
             d.run_at, d.id, own.campaign_id, own.rate
      from due d
      left join lateral pushq.own_lane(d.queue_id, d.lane) own on true
      limit pairs;
    get diagnostics seen = row_count;
    pairs := pairs - seen;
    -- The scan has wrapped around once.
    exit when pairs <= 0 or from_queue < 0;
    to_queue := after_queue;
    to_lane := after_lane;
    from_queue := -1;
  end loop;
  if count_to = 0 then
    return;
  end if;
  -- The same for campaigns, at most `pairs` again.
  from_queue := after_queue;
  from_lane := after_lane;
  to_queue := 2147483647;
  to_lane := 2147483647;
  loop
    return query
      with recursive open as (
        select n.* from pushq.next_fan_out(from_queue, from_lane, to_queue) n
        where (n.queue_id, n.lane) <= (to_queue, to_lane)
        union all
        select n.* from open o cross join lateral pushq.next_fan_out(o.queue_id, o.lane, to_queue) n
        where (n.queue_id, n.lane) <= (to_queue, to_lane))
      select o.queue_id, o.lane, o.campaign_id, c.ready,
             pushq.microseconds_until(o.start_at), null::timestamptz, null::bigint,
             own.campaign_id, own.rate
      from open o
      cross join lateral pushq.due_jobs(o.queue_id, o.lane, '-infinity', 0, count_to) c
      left join lateral pushq.own_lane(o.queue_id, o.lane) own on true
      limit campaigns;
    get diagnostics seen = row_count;
    campaigns := campaigns - seen;
    exit when campaigns <= 0 or from_queue < 0;
    to_queue := after_queue;
    to_lane := after_lane;
    from_queue := -1;
  end loop;
end $$;

-- The same for the shared lanes of queues within some ranges, at most `pairs`. While it takes many polls to visit all
-- lanes, the caller leaves out queues that wait for room, or all but those in use. It also looks at the given lanes
-- that belong to one campaign each: a queue may have thousands of these, and few need anything at a time.
create or replace function pushq.ready_within(
  after_queue int[], before_queue int[], own_queue int[], own_lane int[], pairs int)
returns table (queue_id int, lane int, run_at timestamptz, id bigint, due_in bigint, own_campaign bigint,
               own_rate float8)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  seen int;
begin
  perform pushq.follow_lineage();
  perform pushq.fit_plans();
  if cardinality(own_queue) > 0 then
    return query
      select w.queue_id, w.lane, j.run_at, j.id,
             pushq.microseconds_until(j.run_at),
             own.campaign_id, own.rate
      from unnest(own_queue, own_lane) as w(queue_id, lane)
      cross join lateral (
        select j.run_at, j.id
        from pushq.job j
        where j.queue_id = w.queue_id and j.lane = w.lane
        order by j.run_at, j.id
        limit 1) j
      cross join lateral pushq.own_lane(w.queue_id, w.lane) own;
  end if;
  for i in 1 .. cardinality(after_queue) loop
    return query
      with recursive due as (
        select n.* from pushq.next_lane(after_queue[i], 2147483647, before_queue[i] - 1) n
        union all
        -- The shared lanes of a queue are followed by the next queue.
        select n.*
        from due d
        cross join lateral pushq.next_lane(
          d.queue_id, case when d.lane < 2 then d.lane else 2147483647 end, before_queue[i] - 1) n)
      select d.queue_id, d.lane, d.run_at, d.id,
             pushq.microseconds_until(d.run_at),
             null::bigint, null::float8
      from due d
      where d.lane <= 2
      limit pairs;
    get diagnostics seen = row_count;
    pairs := pairs - seen;
    exit when pairs <= 0;
  end loop;
end $$;

-- The same, starting at floors: in these lanes, everything below (run_at, id) is known to be gone. So no poll reads the
-- index entries of claimed jobs again, which stay as long as an open snapshot may see them. `ready` counts the ready
-- jobs of the lanes in `counted`, and of all lanes that belong to one campaign. The floors are of shared lanes, ordered
-- by queue and lane; the lanes between them are scanned as above.
create or replace function pushq.ready_above(
  floor_queue int[], floor_lane int[], floor_run_at timestamptz[], floor_id bigint[], counted boolean[],
  count_to int)
returns table (queue_id int, lane int, run_at timestamptz, id bigint, ready int, due_in bigint, own_campaign bigint,
               own_rate float8)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  from_queue int      := -1;
  from_lane  int      := 0;
  to_queue   int;
  to_lane    int;
begin
  perform pushq.follow_lineage();
  perform pushq.fit_plans();
  for i in 1 .. cardinality(floor_queue) + 1 loop
    to_queue := coalesce(floor_queue[i], 2147483647);
    to_lane := coalesce(floor_lane[i], 0);
    return query
      with recursive due as (
        select n.* from pushq.next_lane(from_queue, from_lane, to_queue - 1) n
        union all
        select n.* from due d cross join lateral pushq.next_lane(d.queue_id, d.lane, to_queue - 1) n)
      select d.queue_id, d.lane, d.run_at, d.id, c.ready,
             pushq.microseconds_until(d.run_at),
             own.campaign_id, own.rate
      from due d
      cross join lateral pushq.due_jobs(
        d.queue_id, d.lane, d.run_at, d.id, case when d.lane > 2 then count_to else 0 end) c
      left join lateral pushq.own_lane(d.queue_id, d.lane) own on true;
    exit when i > cardinality(floor_queue);
    -- The lanes of this queue before the one with the floor, and that lane.
    return query
      select to_queue, l.lane, h.run_at, h.id, c.ready,
             pushq.microseconds_until(h.run_at),
             null::bigint, null::float8
      from (
        select n as lane, case when n = to_lane then floor_run_at[i] else '-infinity' end as run_at,
               case when n = to_lane then floor_id[i] else 0 end as id
        from generate_series(case when from_queue = to_queue then from_lane + 1 else 0 end, to_lane) n) l
      cross join lateral (
        select j.run_at, j.id
        from pushq.job j
        where j.queue_id = to_queue and j.lane = l.lane and (j.run_at, j.id) >= (l.run_at, l.id)
        order by j.run_at, j.id
        limit 1) h
      cross join lateral pushq.due_jobs(
        to_queue, l.lane, h.run_at, h.id, case when counted[i] and l.lane = to_lane then count_to else 0 end) c;
    from_queue := to_queue;
    from_lane := to_lane;
  end loop;
end $$;
