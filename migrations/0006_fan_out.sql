-- One step of a campaign's fan-out: bounded by the rows it scans, so that a rare audience cannot make it endless; it cuts whole
-- jobs and keeps what is left with the cursor, committed together with the jobs. Returns how many jobs it made, or null when there
-- is nothing to do or somebody else is at it.
create function pushq.fan_out_step(queue int, campaign bigint, per_job int, job_limit int, scan_limit int) returns int
language plpgsql as $$
declare
  f    pushq.fan_out;
  made int;
begin
  perform pushq.fit_plans();
  select * into f
  from pushq.fan_out o
  where o.queue_id = queue and o.campaign_id = campaign and not o.done and not o.paused and o.start_at <= now()
  for no key update skip locked;
  if not found then
    return null;
  elsif f.source = 'bodies' then
    return pushq.fan_out_lists(f, job_limit);
  end if;

  with seen as materialized (
    -- One pass. The audience's predicate stands in the filter and never in the where, or the scan would not be bounded.
    select coalesce(array_agg(id) filter (where active), '{}') as hits, max(id) as upto
    from (
      select id, active
      from pushq.device
      where queue_id = f.queue_id and id > f.cursor_device_id and id <= f.last_device_id
      order by id
      limit scan_limit) d),
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
    select f.queue_id, job_id, 2, now(), f.send_by, f.message_id, f.campaign_id, f.campaign_id, pushq.today(), cardinality(ids),
           f.at_most_once
    from cut
    returning recipient_count)
  update pushq.fan_out o
  set made = o.made + (select coalesce(sum(recipient_count), 0) from jobs),
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

-- The same for a list of tokens, whose bodies were made in the transaction that sealed the campaign: only jobs are inserted.
create function pushq.fan_out_lists(f pushq.fan_out, job_limit int) returns int
language plpgsql as $$
declare
  made int;
begin
  with next as materialized (
    select job_id, first_device_id, cardinality(device_ids) as recipients
    from pushq.body
    where day = f.body_day and queue_id = f.queue_id and root_id = f.campaign_id and slice = 0
      and first_device_id > f.cursor_device_id
    order by first_device_id
    limit job_limit),
  jobs as (
    insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count,
                           at_most_once)
    select f.queue_id, job_id, 2, now(), f.send_by, f.message_id, f.campaign_id, f.campaign_id, f.body_day, recipients,
           f.at_most_once
    from next)
  update pushq.fan_out o
  set made = o.made + n.recipients,
      cursor_device_id = coalesce(n.upto, o.cursor_device_id),
      done = n.jobs < job_limit,
      done_at = case when n.jobs < job_limit then clock_timestamp() end
  from (select count(*)::int as jobs, coalesce(sum(recipients), 0) as recipients, max(first_device_id) as upto from next) n
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id
  returning n.jobs into made;
  return made;
end $$;
