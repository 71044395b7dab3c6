-- Showing queues: their settings, what waits in them, and what was sent.

-- Queues with their settings and what waits in them: of one tenant, or all that the caller may look at, or those among
-- them whose names contain `matching`; `most` of them, or all if null. At most `counting` jobs are counted, shared
-- among the queues (null: all), but at least 100 of each queue; the result says whether there are more.
create or replace function pushq.show_queues(tenant text, matching text, most bigint, counting bigint)
returns table (tenant_name text, app text, environment text, rate float8, burst float8, weight float8,
               connections smallint, max_attempts smallint, credential text, gateway text, frequency_cap text,
               quiet_hours text,
               paused_reason text,
               jobs bigint, recipients bigint, has_more_jobs boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(null, show_queues.tenant);
begin
  perform pushq.check_row_limit(most);
  return query
  with shown as materialized (
    select *
    from pushq.queue_name n
    where (ids is null or n.queue_id = any (ids))
      and (matching is null or position(lower(matching) in lower(n.name)) > 0)
    order by n.tenant, n.app, n.environment
    limit most),
  bound as materialized (
    select greatest(counting / greatest(count(*), 1), case when counting is not null then 100 end) as rows from shown)
  select n.tenant, n.app, n.environment, p.rate, p.burst, q.weight::float8, q.connections, q.max_attempts, c.name,
         q.gateway, case when f.queue_id is not null then pushq.cap_in_words(f) end,
         case when h.queue_id is not null then pushq.quiet_hours_in_words(h) end,
         case when q.paused_at is not null then q.paused_reason
              when n.suspended_at is not null then 'the tenant is suspended' end,
         j.jobs, j.recipients, coalesce(j.jobs >= b.rows, false)
  from shown n
  cross join bound b
  join pushq.queue q on q.id = n.queue_id
  left join pushq.rate_limit p on p.tenant_id = q.tenant_id and p.queue_id = q.id and p.campaign_id = 0
  left join pushq.frequency_cap f on f.queue_id = q.id
  left join pushq.quiet_hours h on h.queue_id = q.id
  left join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
  cross join lateral (
    select count(*) as jobs,
           coalesce(sum(pushq.waiting_recipients(j.recipient_count, j.outcomes)), 0)::bigint as recipients
    from (
      select j.recipient_count, j.outcomes from pushq.job j where j.queue_id = q.id order by j.id limit b.rows) j) j
  order by n.tenant, n.app, n.environment;
end $$;

-- What waits and is held in each queue, its devices, and the outcomes of 24 hours. Of each kind of row, `most` are
-- read, shared among the queues (null: all); the result says whether there are more. Jobs are read by key, because
-- their due order does not matter. Results are read newest first, so that the oldest are left out.
create or replace function pushq.show_statistics(tenant text, most bigint)
returns table (tenant_name text, app text, environment text, active bigint, inactive bigint, waiting_jobs bigint,
               waiting_recipients bigint, held_jobs bigint, held_recipients bigint, delivered bigint, rejected bigint,
               failed bigint, suppressed bigint, expired bigint, cancelled bigint, unknown bigint, retried bigint,
               has_more_devices boolean, has_more_jobs boolean, has_more_outcomes boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(null, show_statistics.tenant);
begin
  perform pushq.check_row_limit(most);
  return query
  with shown as materialized (
    select * from pushq.queue_name n where ids is null or n.queue_id = any (ids)),
  bound as materialized (
    select greatest(most / greatest(count(*), 1), case when most is not null then 100 end) as rows from shown)
  select n.tenant, n.app, n.environment, d.active, d.inactive, j.jobs, j.recipients, l.jobs, l.recipients,
         r.delivered, r.rejected, r.failed, r.suppressed, r.expired, r.cancelled + c.in_no_job, r.unknown, r.retried,
         coalesce(d.seen >= b.rows, false), coalesce(j.jobs >= b.rows, false), coalesce(r.seen >= b.rows, false)
  from shown n
  cross join bound b
  cross join lateral (
    select count(*) as seen, count(*) filter (where active) as active, count(*) filter (where not active) as inactive
    from (select active from pushq.device where queue_id = n.queue_id order by id limit b.rows) d) d
  cross join lateral (
    select count(*) as jobs, coalesce(sum(pushq.waiting_recipients(recipient_count, outcomes)), 0)::bigint as recipients
    from (
      select recipient_count, outcomes from pushq.job where queue_id = n.queue_id order by id limit b.rows) j) j
  cross join lateral (
    select count(*) as jobs, coalesce(sum(pushq.held_recipients(recipient_count, outcomes)), 0)::bigint as recipients
    from pushq.lease where queue_id = n.queue_id) l
  cross join lateral (
    select count(*) as seen,
           coalesce(sum(delivered), 0)::bigint as delivered,
           coalesce(sum(rejected), 0)::bigint as rejected,
           coalesce(sum(failed) filter (where retried_at is null), 0)::bigint as failed,
           coalesce(sum(suppressed), 0)::bigint as suppressed,
           coalesce(sum(expired), 0)::bigint as expired,
           coalesce(sum(cancelled), 0)::bigint as cancelled,
           coalesce(sum(unknown), 0)::bigint as unknown,
           coalesce(sum(retried + case when retried_at is null then 0 else failed end), 0)::bigint as retried
    from (
      select *
      from (
        (select *
         from pushq.result
         where day = pushq.today() and queue_id = n.queue_id
         order by job_id desc
         limit b.rows)
        union all
        (select *
         from pushq.result
         where day = pushq.today() - 1 and queue_id = n.queue_id
         order by job_id desc
         limit b.rows)) r
      order by day desc
      limit b.rows) r
    where ended_at > now() - interval '24 hours') r
  cross join lateral (
    -- Recipients of lists whose campaigns were cancelled before they were in a job. By both columns, as in
    -- `pushq.show_campaigns`.
    select coalesce(sum(f.not_made), 0)::bigint as in_no_job
    from (
      select *
      from pushq.campaign
      where queue_id between n.queue_id and n.queue_id
      order by queue_id desc, id desc
      limit b.rows) k
    join pushq.fan_out f on f.queue_id = k.queue_id and f.campaign_id = k.id
    where k.cancelled_at > now() - interval '24 hours') c
  order by n.tenant, n.app, n.environment;
end $$;
