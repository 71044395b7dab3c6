-- Retrying failed recipients by hand: transient refusals used up their attempts. An operator or the producer decides
-- when to try again.
--
-- The failed recipients of a result go into new jobs under the same root, so that each keeps its apns-id, with attempt
-- 1 and a new send_by. The same statement sets `result.retried_at`, once: a second caller finds nothing to retry. The
-- campaign's counts move these recipients from `failed` to `retried`, so that its total is still the sum of the
-- outcomes and of what waits.

-- Retries the failed recipients of one job, or of all jobs of a root. Returns their number.
create or replace function pushq.send_again(q int, root bigint, only_job bigint, send_by timestamptz) returns bigint
language plpgsql as $$
declare
  campaign pushq.campaign;
  until    timestamptz := pushq.end_of_send(send_by, now());
  failed   record;                                        -- recipients of one message, in one lane
  once     boolean;                                       -- whether the message is sent at most once
  again    bigint := 0;
  pardoned bigint := 0;                                   -- of these: those that failed before the campaign was resumed
begin
  perform pushq.check_times(now(), 'now', until);
  -- Two callers wait for each other. The lock also keeps the campaign from being resumed meanwhile, because that would
  -- miss the jobs that are created here to wait. Workers never wait for this row.
  select c.* into campaign
  from pushq.campaign c
  where c.queue_id = q and c.id = root
  for no key update;
  if campaign.cancelled_at is not null then
    raise exception using errcode = 'PQ409',
      message = format('campaign “%s” was cancelled', pushq.shown(campaign.key, 200)),
      hint = 'start another one under a new key';
  end if;
  if exists (select from pushq.cancelled x where x.queue_id = q and x.id in (root, only_job)) then
    raise exception using errcode = 'PQ409', message = format('send %s or its job was cancelled', root),
      hint = 'send the message again with a new call';
  end if;
  perform pushq.refuse_past_expiration(q, root);
  -- The new jobs end at `until`, even if the campaign was resumed with another end for its existing jobs.
  update pushq.fan_out f
  set new_end_before = nextval('pushq.id')
  where f.queue_id = q and f.campaign_id = campaign.id and f.new_end_before = 9223372036854775807;

  for failed in
    with taken as materialized (
      update pushq.result r
      set retried_at = now()
      where r.queue_id = q and r.root_id = root and (only_job is null or r.job_id = only_job)
        and r.failed > 0 and r.retried_at is null
        and exists (select from pushq.body b where b.day = r.body_day and b.queue_id = q and b.job_id = r.job_id)
        and exists (select from pushq.message m where m.day = r.body_day and m.queue_id = q and m.id = r.message_id)
      returning r.job_id, r.body_day, r.message_id, r.lane, r.ended_at, r.outcomes, r.losses)
    select t.message_id, t.lane,
           -- Whether an answer was lost before. One counts like many: this is a new start, and not the push's fault.
           least(coalesce(get_byte(t.losses, n), 0), 1) as losses,
           min(t.body_day) as body_day,
           array_agg(b.device_ids[n + 1] order by b.device_ids[n + 1]) as ids,
           count(*) filter (where t.ended_at <= campaign.forgiven_at) as pardoned
    from taken t
    cross join lateral (
      select device_ids from pushq.body b where b.day = t.body_day and b.queue_id = q and b.job_id = t.job_id limit 1) b
    cross join lateral generate_series(0, octet_length(t.outcomes) - 1) n
    where pushq.outcome_kind(get_byte(t.outcomes, n)) = 'failed' and b.device_ids[n + 1] is not null
    group by 1, 2, 3
  loop
    perform pushq.bring_message(q, failed.message_id, failed.body_day);
    select m.at_most_once into once
    from pushq.message m
    where m.day = failed.body_day and m.queue_id = q and m.id = failed.message_id;
    -- The slice of a first attempt that is not an original job: -attempt, as in Settling/Ending.swift.
    perform pushq.make_jobs(
      q, root, failed.message_id, failed.ids, failed.lane,
      case when campaign.paused_at is null then now() else 'infinity' end,
      until, once, campaign => campaign.id, slice => (-1)::smallint, losses => failed.losses);
    if campaign.id is not null then
      -- A part that nobody else is writing, as when a job ends.
      update pushq.campaign_tally t
      set failed = t.failed - cardinality(failed.ids), retried = t.retried + cardinality(failed.ids),
          bad = t.bad - cardinality(failed.ids)
      where t.ctid = (
        select p.ctid
        from pushq.campaign_tally p
        where p.queue_id = q and p.campaign_id = campaign.id and p.message_id = failed.message_id
        limit 1
        for no key update skip locked);
      if not found then
        insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, failed, retried, bad)
        values (q, campaign.id, nextval('pushq.id'), failed.message_id, -cardinality(failed.ids),
                cardinality(failed.ids), -cardinality(failed.ids));
      end if;
    end if;
    again := again + cardinality(failed.ids);
    pardoned := pardoned + failed.pardoned;
  end loop;

  -- These answers do not count any more, so they are removed from the forgiven ones, too.
  if pardoned > 0 then
    update pushq.campaign c
    set forgiven = c.forgiven - pardoned, forgiven_bad = c.forgiven_bad - pardoned
    where c.queue_id = q and c.id = campaign.id;
  end if;
  perform pushq.check_quota(q, recipients => again);
  if again > 0 then
    perform pushq.note_retry(q, root, campaign.key, only_job, again);
  end if;
  perform pushq.wake(q);
  return again;
end $$;

-- Whether a campaign has failed recipients that can be retried (`pushq.send_again`).
create or replace function pushq.has_kept_failures(q int, root bigint) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select
    from pushq.result r
    where r.queue_id = q and r.root_id = root and r.failed > 0 and r.retried_at is null
      and exists (select from pushq.body b where b.day = r.body_day and b.queue_id = q and b.job_id = r.job_id)
      and exists (select from pushq.message m where m.day = r.body_day and m.queue_id = q and m.id = r.message_id));
end $$;

-- Refuses to retry a message whose expiration has passed, because its recipients would only end as expired.
create or replace function pushq.refuse_past_expiration(q int, root bigint) returns void
language plpgsql as $$
declare
  passed bigint;
begin
  select m.expiration into passed
  from (select message_id, body_day from pushq.result where queue_id = q and root_id = root limit 1) r
  join pushq.message m on m.day = r.body_day and m.queue_id = q and m.id = r.message_id
  where m.expiration <> 0 and m.expiration < extract(epoch from now());
  if found then
    raise exception using errcode = 'PQ409', message = format('the message expired at %s', to_timestamp(passed)),
      hint = 'send the message again with another expiration';
  end if;
end $$;

-- Retries the failed recipients of a job. Returns their number; 0 if there are none, or none any more. Fails if they
-- are no longer kept.
create or replace function pushq.retry_failed(queue text, job bigint, send_by timestamptz default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q     int := (pushq.enter(queue, sends => true)).q;
  root  bigint;
  again bigint;
begin
  if job is null then
    raise exception using errcode = 'PQ400', message = 'the job is null',
      hint = 'list jobs with failed recipients with: pushq-admin job list --failed';
  end if;
  select r.root_id into root
  from unnest(pushq.days_of('result')) k(day)
  cross join lateral (
    select r.root_id
    from pushq.result r
    where r.day = k.day and r.queue_id = q and r.job_id = retry_failed.job
    offset 0) r;
  if root is null then
    raise exception using errcode = 'PQ404',
      message = format('job %s has not ended, is no longer kept, or never was in this queue', job),
      hint = 'list jobs with failed recipients with: pushq-admin job list --failed';
  end if;
  again := pushq.send_again(q, root, job, send_by);
  if again = 0 and exists (
    select from pushq.result r where r.queue_id = q and r.job_id = job and r.failed > 0 and r.retried_at is null) then
    raise exception using errcode = 'PQ404', message = format('the recipients of job %s are no longer kept', job),
      hint = 'send the message again with a new call';
  end if;
  return again;
end $$;

-- Retries the failed recipients of a campaign that are still kept. Returns their number. Fails if none of them is kept.
create or replace function pushq.retry_failed_campaign(queue text, key text, send_by timestamptz default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q      int := (pushq.enter(queue, sends => true)).q;
  root   bigint;
  failed bigint;                                          -- before this call: more may fail while it looks
  again  bigint;
begin
  select c.id into root from pushq.campaign c where c.queue_id = q and c.key = retry_failed_campaign.key;
  if root is null then
    perform pushq.refuse_campaign(queue, key);
  end if;
  select sum(t.failed) into failed from pushq.campaign_tally t where t.queue_id = q and t.campaign_id = root;
  again := pushq.send_again(q, root, null, send_by);
  if again = 0 and failed > 0 and (
    select sum(t.failed) > 0 from pushq.campaign_tally t where t.queue_id = q and t.campaign_id = root) then
    raise exception using errcode = 'PQ404',
      message = format('the failed recipients of campaign “%s” are no longer kept', pushq.shown(key, 200)),
      hint = 'start another campaign to them under a new key';
  end if;
  return again;
end $$;
