-- One step of a campaign's fan-out: bounded by the rows it scans, so that a rare audience cannot make it endless; it
-- cuts whole jobs and keeps what is left with the cursor, committed together with the jobs. Returns how many jobs it
-- made, or null when there is nothing to do or somebody else is at it.
--
-- With `campaign` null it is the lane's first one that nobody has locked: a lane's campaigns fan out one after the
-- other, and one that a producer is pausing, in a transaction that may last, keeps none of the others. Among workers
-- the advisory lock sees to it that they do not go on with the next one while the first is being worked on.
create or replace function pushq.fan_out_step(queue int, of_lane smallint, campaign bigint, per_job int, job_limit int, scan_limit int) returns int
language plpgsql as $$
declare
  f      pushq.fan_out;
  aim    text;                                            -- the kind of device that the message is for
  made   int;
begin
  if not pg_try_advisory_xact_lock('pushq.fan_out'::regclass::oid::int, queue) then
    return null;
  end if;
  perform pushq.fit_plans();
  select * into f
  from pushq.fan_out o
  where o.queue_id = queue and o.lane = of_lane and (campaign is null or o.campaign_id = campaign) and not o.done and not o.paused and o.start_at <= now()
  order by o.start_at, o.campaign_id
  limit 1
  for no key update skip locked;
  if not found then
    return null;
  end if;
  perform pushq.bring_message(f.queue_id, f.message_id, f.message_day);
  select pushq.device_kind(m.push_type) into aim
  from pushq.message m where m.day = greatest(f.message_day, pushq.today()) and m.queue_id = f.queue_id and m.id = f.message_id;
  if f.last_device_id is null then
    f.last_device_id := coalesce((select id from pushq.device where queue_id = f.queue_id order by id desc limit 1), 0);
  end if;

  with seen as materialized (
    -- One pass, over one of the two. The audience's predicate stands in the filter and never in the where, or the scan
    -- would not be bounded. Whoever is on a list and inactive is a recipient, too: suppressed, when the job is claimed.
    select coalesce(array_agg(id) filter (where wanted), '{}') as hits, max(id) as upto
    from (
      (select id, active and (kind is null or kind = aim) as wanted
       from pushq.device
       where f.list_id is null and queue_id = f.queue_id and id > f.cursor_device_id and id <= f.last_device_id
       order by id
       limit scan_limit)
      union all
      (select device_id, true
       from pushq.list_member
       where f.list_id is not null and queue_id = f.queue_id and list_id = f.list_id and device_id > f.cursor_device_id
       order by device_id
       limit scan_limit)) d),
  held as materialized (
    select f.rest || hits as ids, upto from seen),
  cut as materialized (
    select nextval('pushq.id') as job_id, h.ids[k * per_job + 1 : (k + 1) * per_job] as ids
    from held h,
         generate_series(0, case when h.upto is null then ceil(cardinality(h.ids)::numeric / per_job)::int
                                 else least(cardinality(h.ids) / per_job, job_limit) end - 1) k),
  bodies as (
    insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
    select pushq.today(), f.queue_id, job_id, f.campaign_id, ids[1], ids[cardinality(ids)], ids
    from cut),
  jobs as (
    insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count,
                           at_most_once)
    select f.queue_id, job_id, f.lane, now(), f.send_by, f.message_id, f.campaign_id, f.campaign_id, pushq.today(), cardinality(ids),
           f.at_most_once
    from cut
    returning recipient_count)
  update pushq.fan_out o
  set made = o.made + (select coalesce(sum(recipient_count), 0) from jobs),
      message_day = greatest(o.message_day, pushq.today()),
      last_device_id = f.last_device_id,
      done = h.upto is null,
      done_at = case when h.upto is null then clock_timestamp() end,
      cursor_device_id = case when n.jobs = job_limit and h.upto is not null then h.ids[job_limit * per_job]
                              else coalesce(h.upto, o.cursor_device_id) end,
      rest = case when h.upto is null or n.jobs = job_limit then '{}' else h.ids[n.jobs * per_job + 1 :] end
  from held h, (select count(*)::int as jobs from cut) n
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id
  returning n.jobs into made;
  return made;
end $$;
