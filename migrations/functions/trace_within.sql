-- Which campaigns and sends devices were in, by the time at which their jobs ended: a part of trace.sql.

-- The latest `most` campaigns and sends that have a job for one of these devices which ended from `since` to `until`,
-- or which waits or is held; the oldest first. Waiting and held jobs are looked for only in what `pushq.trace_latest`
-- finds. `was_cut`: there are more. Only the first
-- `budget` jobs of that time are looked at; `looked_until` is the time at which the last of these ended, or null if
-- there are fewer.
--
-- Of the two indexes by time, each job that has ended is in one. They are read in their order and no further, whatever
-- statistics say about a new table. A day's partition may have times of the next or the former day if the database's
-- clock was set over midnight.
create or replace function pushq.trace_within(
  q int, ids bigint[], since timestamptz, until timestamptz, most int, budget int,
  out roots bigint[], out was_cut boolean, out looked_until timestamptz
)
language plpgsql stable
set enable_sort = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  lowest      bigint := (select min(i) from unnest(ids) i);
  highest     bigint := (select max(i) from unnest(ids) i);
  found_roots bigint[];
  some_roots  bigint[];
  d           date;
  seen        int;
  last        timestamptz;
begin
  found_roots := array(
    select r.id
    from pushq.trace_latest(q, ids, most, budget) t
    cross join unnest(t.roots) r(id)
    where exists (
      select
      from pushq.body b
      where b.queue_id = q and b.root_id = r.id and b.first_device_id <= highest and b.last_device_id >= lowest
        and b.device_ids && ids
        and (exists (select from pushq.job j where j.queue_id = q and j.id = b.job_id)
             or exists (select from pushq.lease l where l.queue_id = q and l.job_id = b.job_id))));
  for d in
    select n.day
    from unnest(pushq.days_of('result')) n(day)
    where n.day + 1 >= (since at time zone 'UTC')::date and n.day - 1 <= (until at time zone 'UTC')::date
    order by n.day
  loop
    select count(*), max(e.ended_at), coalesce(array_agg(distinct e.root_id) filter (where b.is_theirs), '{}')
    into seen, last, some_roots
    from (
      (select r.body_day, r.job_id, r.root_id, r.ended_at
       from pushq.result r
       where r.day = d and r.queue_id = q and r.ended_at >= since and r.ended_at <= until
         and r.delivered + r.rejected > 0
       order by r.ended_at
       limit budget)
      union all
      (select r.body_day, r.job_id, r.root_id, r.ended_at
       from pushq.result r
       where r.day = d and r.queue_id = q and r.ended_at >= since and r.ended_at <= until
         and r.delivered + r.rejected = 0
       order by r.ended_at
       limit budget)
      order by ended_at
      limit budget) e
    left join lateral (
      select true as is_theirs
      from pushq.body x
      where x.day = e.body_day and x.queue_id = q and x.job_id = e.job_id and x.first_device_id <= highest
        and x.last_device_id >= lowest and x.device_ids && ids
      limit 1) b on true;
    found_roots := found_roots || some_roots;
    budget := budget - seen;
    if budget <= 0 then
      looked_until := last;
      exit;
    end if;
  end loop;
  found_roots := array(select distinct r from unnest(found_roots) r order by r desc);
  was_cut := cardinality(found_roots) > most;
  roots := array(select r from unnest(found_roots[:most]) r order by r);
end $$;
