-- Creates jobs. `pushq.send` creates the job of its usual case itself, and `pushq.make_sends` the jobs of many sends to
-- one device each. Workers move jobs, and create those for retries (PostgresStore/Settling).

-- The number of recipients in a job of this queue and lane: as many as its rate, its tenant's rate or the lane's
-- campaign's rate sends in two seconds, so that a slow job does not hold tokens for minutes.
create or replace function pushq.job_size(queue_id int, lane int) returns int
language plpgsql stable as $$
begin
  return coalesce((
    select least(500, greatest(1, coalesce((min(r.rate) * 2)::int, 500)))
    from pushq.queue q
    left join pushq.fan_out f on f.queue_id = q.id and f.lane = $2 and f.lane > 2
    left join pushq.rate_limit r
      on r.tenant_id = q.tenant_id
      and (r.queue_id, r.campaign_id) in ((0, 0::bigint), (q.id, 0::bigint), (q.id, f.campaign_id))
    where q.id = $1), 500);
end $$;

-- Creates the jobs of a message for these devices, or for a channel. Today must have a copy of the message
-- (`pushq.bring_message`). `per_job` is the number of recipients in a job; null means `pushq.job_size`.
--
-- Without devices, it creates one job whose recipients are not known yet: the worker that claims it finds them
-- (`pushq.find_recipients`). `first_job` and `epoch` are those of the job that the first new one replaces. `uncertain`:
-- its recipients may have been sent to, so they end as unknown (functions/restore.sql). `losses`: sends to them that
-- were lost before.
create or replace function pushq.make_jobs(
  q int, root bigint, message bigint, devices bigint[], lane int, run_at timestamptz, send_by timestamptz,
  at_most_once boolean, per_job int default null, campaign bigint default null, slice smallint default 0,
  first_job bigint default null, epoch int default 0, uncertain boolean default false, losses int default 0
) returns void
language plpgsql as $$
begin
  if per_job is null then
    per_job := case when cardinality(devices) > 1 then pushq.job_size(q, lane) else 1 end;
  end if;
  -- The array is a row of its own, so that it is not copied for each job that takes a part of it.
  with given as materialized (
    select devices as ids),
  cut as materialized (
    select case when first = 1 then coalesce(first_job, nextval('pushq.id')) else nextval('pushq.id') end as job_id,
           ids[first : first + per_job - 1] as part
    from given, generate_series(1, greatest(cardinality(ids), 1), per_job) first),
  bodies as (
    insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids)
    select pushq.today(), q, job_id, root, make_jobs.slice,
           coalesce(part[1], 0), coalesce(part[cardinality(part)], 0), part
    from cut)
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                         recipient_count, at_most_once, epoch, watermark, losses)
  select q, job_id, make_jobs.lane, make_jobs.run_at, make_jobs.send_by, message, campaign, root, pushq.today(),
         greatest(cardinality(part), 1), make_jobs.at_most_once or uncertain, make_jobs.epoch,
         case when uncertain then greatest(cardinality(part), 1) else 0 end,
         -- As in `pushq.resume_restored`.
         case when uncertain then 1 else make_jobs.losses end
  from cut;
end $$;
