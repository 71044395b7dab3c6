-- The jobs of a send.

-- The recipients of one job of this queue: what its rate sends in two seconds, so that a slow queue does not hold
-- tokens for minutes.
create or replace function pushq.job_size(queue_id int) returns int
language plpgsql stable as $$
begin
  return coalesce((select least(500, greatest(1, (rate * 2)::int)) from pushq.pace p where p.queue_id = $1), 500);
end $$;

-- Makes the jobs of a send. Without `devices` it is one job whose recipients nobody knows yet: whoever claims it
-- finds them (`pushq.find_recipients`). `first_job` and `epoch` are of the job that they take the place of.
create or replace function pushq.make_jobs(
  q int, root bigint, message bigint, devices bigint[], lane smallint, run_at timestamptz, send_by timestamptz,
  at_most_once boolean, first_job bigint default null, epoch int default 0
) returns void
language plpgsql as $$
declare
  per_job int := pushq.job_size(q);
begin
  with cut as materialized (
    select case when first = 1 then coalesce(first_job, nextval('pushq.id')) else nextval('pushq.id') end as job_id,
           devices[first : first + per_job - 1] as part
    from generate_series(1, greatest(cardinality(devices), 1), per_job) first),
  bodies as (
    insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
    select pushq.today(), q, job_id, root, coalesce(part[1], 0), coalesce(part[cardinality(part)], 0), part from cut)
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count, at_most_once, epoch)
  select q, job_id, make_jobs.lane, make_jobs.run_at, make_jobs.send_by, message, root, pushq.today(), greatest(cardinality(part), 1),
         make_jobs.at_most_once, make_jobs.epoch
  from cut;
end $$;
