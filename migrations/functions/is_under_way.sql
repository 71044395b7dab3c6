-- What is left of a campaign: jobs that wait or are held, and those that are not created yet.

-- A campaign's jobs that no worker holds: in its lane and, if it was given a lane of its own, those that came back to
-- the lane that it shared before. The planner inlines this into the calling query, which reads the index of ready jobs.
create or replace function pushq.unleased_jobs(f pushq.fan_out) returns setof pushq.job
language sql stable as $$
  select *
  from pushq.job j
  where j.queue_id = f.queue_id and j.lane in (f.lane, f.lane % 3) and j.campaign_id = f.campaign_id
$$;

-- Whether jobs of a campaign wait or are held. One statement reads both tables, because a job moves between them.
create or replace function pushq.has_jobs(f pushq.fan_out) returns boolean
language plpgsql stable as $$
begin
  return exists (select from pushq.unleased_jobs(f))
    or exists (select from pushq.lease l where l.queue_id = f.queue_id and l.campaign_id = f.campaign_id);
end $$;

-- Whether anything of a campaign is left: not all its jobs are created, or some wait or are held.
create or replace function pushq.is_under_way(q int, campaign bigint) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select
    from pushq.fan_out f
    where f.queue_id = q and f.campaign_id = campaign and (not f.done or pushq.has_jobs(f)));
end $$;
