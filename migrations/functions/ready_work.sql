-- How a worker finds out what there is to do.
--
-- Lanes 0, 1 and 2 are those that all campaigns and sends of a queue share. Each higher one is a campaign's own.

-- Whose own a lane is, and its rate; no row for a lane that is shared. The planner puts it into the query that calls
-- it.
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

-- In how long it is; null for never. It is put into the query, too.
create or replace function pushq.microseconds_until(moment timestamptz) returns bigint
language sql stable as $$
  select case when moment <> 'infinity' then (extract(epoch from moment - now()) * 1000000)::bigint end
$$;

-- Which (queue, lane) pairs have jobs, and which campaigns have jobs to be made. Of a lane that is one campaign's own,
-- also which one's, and its rate.
--
-- A loose scan of `job_ready`, one probe a pair: 0.9 ms for 150 pairs among 10,000 queues, where probing every queue
-- and lane took 79 ms. It begins after (after_queue, after_lane), goes on at the beginning, and ends after `pairs`:
-- a caller that begins where the last call ended gets all of them in turn. So it is with campaigns, of which
-- there may be thousands: each pair's first, as many as pairs. Their ready jobs are counted up to `count_to`, which
-- costs more than all else where many campaigns are under way; with 0 it looks at no campaigns. In plpgsql, so that
-- plans are looked after before they are used.
--
-- Each probe is one of an index that has the order, whatever the statistics say. When thousands of queues got work at
-- once, they still said that all jobs were of a single queue; and to sort the few others was as cheap, so each probe
-- read all of these: a poll of 9000 lanes took nine seconds, in which the worker sent nothing.
--
-- A worker asks this before it claims anything. So it is here that the database is found to have been restored, also if
-- that happened behind a pooler, which keeps the worker's session.
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
        (select j.queue_id, j.lane, j.run_at, j.id
         from pushq.job j
         where (j.queue_id, j.lane) > (from_queue, from_lane) and (j.queue_id, j.lane) <= (to_queue, to_lane)
         order by j.queue_id, j.lane, j.run_at, j.id
         limit 1)
        union all
        select n.queue_id, n.lane, n.run_at, n.id
        from due d
        cross join lateral (
          select j.queue_id, j.lane, j.run_at, j.id
          from pushq.job j
          where (j.queue_id, j.lane) > (d.queue_id, d.lane) and (j.queue_id, j.lane) <= (to_queue, to_lane)
          order by j.queue_id, j.lane, j.run_at, j.id
          limit 1) n)
      select d.queue_id, d.lane, null::bigint, 0,
             pushq.microseconds_until(d.run_at),
             d.run_at, d.id, own.campaign_id, own.rate
      from due d
      left join lateral pushq.own_lane(d.queue_id, d.lane) own on true
      limit pairs;
    get diagnostics seen = row_count;
    pairs := pairs - seen;
    -- It has been around once.
    exit when pairs <= 0 or from_queue < 0;
    to_queue := after_queue;
    to_lane := after_lane;
    from_queue := -1;
  end loop;
  if count_to = 0 then
    return;
  end if;
  -- The campaigns of a queue's lane fan out one after the other: a probe a pair, in the same order, and so many at
  -- the most.
  from_queue := after_queue;
  from_lane := after_lane;
  to_queue := 2147483647;
  to_lane := 2147483647;
  loop
    return query
      with recursive open as (
        (select f.queue_id, f.lane, f.campaign_id, f.start_at
         from pushq.fan_out f
         where not f.done and not f.paused
           and (f.queue_id, f.lane) > (from_queue, from_lane) and (f.queue_id, f.lane) <= (to_queue, to_lane)
         order by f.queue_id, f.lane, f.start_at, f.campaign_id
         limit 1)
        union all
        select n.queue_id, n.lane, n.campaign_id, n.start_at
        from open o
        cross join lateral (
          select f.queue_id, f.lane, f.campaign_id, f.start_at
          from pushq.fan_out f
          where not f.done and not f.paused
            and (f.queue_id, f.lane) > (o.queue_id, o.lane) and (f.queue_id, f.lane) <= (to_queue, to_lane)
          order by f.queue_id, f.lane, f.start_at, f.campaign_id
          limit 1) n)
      select o.queue_id, o.lane, o.campaign_id,
             (select count(*)::int
              from (
                select
                from pushq.job j
                where j.queue_id = o.queue_id and j.lane = o.lane and j.run_at <= now()
                limit count_to) r),
             pushq.microseconds_until(o.start_at), null::timestamptz, null::bigint,
             own.campaign_id, own.rate
      from open o
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

-- The same for the shared lanes of the queues between some pairs of others, no more than `pairs`: while it takes many
-- polls to come to all lanes, those of queues that wait for room are left out, or all but those in use. And for some
-- lanes that are one campaign's own: a queue may have thousands of these, and few need anything at a time.
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
        (select j.queue_id, j.lane, j.run_at, j.id
         from pushq.job j
         where j.queue_id > after_queue[i] and j.queue_id < before_queue[i]
         order by j.queue_id, j.lane, j.run_at, j.id
         limit 1)
        union all
        -- Behind the shared lanes of a queue comes the next queue.
        select n.queue_id, n.lane, n.run_at, n.id
        from due d
        cross join lateral (
          select j.queue_id, j.lane, j.run_at, j.id
          from pushq.job j
          where (j.queue_id, j.lane) > (d.queue_id, case when d.lane < 2 then d.lane else 2147483647 end)
            and j.queue_id < before_queue[i]
          order by j.queue_id, j.lane, j.run_at, j.id
          limit 1) n)
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

-- The same, begun at floors: of these lanes everything below (run_at, id) is known to be gone. So no poll reads the
-- index entries of claimed jobs again, which stay for as long as an open snapshot may see them. `ready` counts the
-- ready jobs of those lanes that are to be counted, and of all that are a campaign's own. The
-- floors are of lanes that campaigns share, in the order of queue and lane; what lies between them is scanned as above.
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
    -- The end is a queue and not a pair: an index scan ends at a bound of its first column, and would go on through
    -- the lane with the floor.
    return query
      with recursive due as (
        (select j.queue_id, j.lane, j.run_at, j.id
         from pushq.job j
         where (j.queue_id, j.lane) > (from_queue, from_lane) and j.queue_id < to_queue
         order by j.queue_id, j.lane, j.run_at, j.id
         limit 1)
        union all
        select n.queue_id, n.lane, n.run_at, n.id
        from due d
        cross join lateral (
          select j.queue_id, j.lane, j.run_at, j.id
          from pushq.job j
          where (j.queue_id, j.lane) > (d.queue_id, d.lane) and j.queue_id < to_queue
          order by j.queue_id, j.lane, j.run_at, j.id
          limit 1) n)
      select d.queue_id, d.lane, d.run_at, d.id,
             case when d.lane > 2 then (
               select count(*)::int
               from (
                 select
                 from pushq.job j
                 where j.queue_id = d.queue_id and j.lane = d.lane and j.run_at <= now()
                 limit count_to) r) else 0 end,
             pushq.microseconds_until(d.run_at),
             own.campaign_id, own.rate
      from due d
      left join lateral pushq.own_lane(d.queue_id, d.lane) own on true;
    exit when i > cardinality(floor_queue);
    -- The lanes of this queue before the one with the floor, and that one.
    return query
      select to_queue, l.lane, h.run_at, h.id,
             case when counted[i] and l.lane = to_lane then (
               select count(*)::int
               from (
                 select
                 from pushq.job j
                 where j.queue_id = to_queue and j.lane = l.lane and j.run_at <= now()
                   and (j.run_at, j.id) >= (h.run_at, h.id)
                 limit count_to) r) else 0 end,
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
        limit 1) h;
    from_queue := to_queue;
    from_lane := to_lane;
  end loop;
end $$;
