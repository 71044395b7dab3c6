-- Pausing, resuming and cancelling a campaign.

-- Pauses a campaign. This marks the campaign and tells workers, which give its jobs back. A worker that claims one
-- of its jobs later sees the mark and sets the job aside. Neither its jobs nor its counts are locked here, because
-- the caller's transaction may last and every job that ends needs the counts.
create or replace function pushq.pause_campaign(queue text, key text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
  c bigint;
begin
  update pushq.campaign k set paused_at = now()
  where k.queue_id = q and k.key = $2 and paused_at is null and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  update pushq.fan_out set paused = true where queue_id = q and campaign_id = c;
  perform pushq.tell('root', c);
  return true;
end $$;

-- Refuses a transaction whose snapshot is older than its statement: it would not see jobs that workers have set
-- aside since.
create or replace function pushq.check_isolation() returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not like 'read %' then
    raise exception using errcode = 'PQ409',
      message = format('a campaign cannot be resumed or cancelled in a transaction with isolation level %s',
                       current_setting('transaction_isolation')),
      hint = 'use read committed, or a transaction of its own';
  end if;
end $$;

-- Resumes a paused campaign. If its send_by has passed meanwhile, it needs a new one, or nothing could be sent.
create or replace function pushq.resume_campaign(queue text, key text, send_by timestamptz default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q     int := (pushq.enter(queue, sends => true)).q;
  c     bigint;
  f     pushq.fan_out;
  until bigint;
begin
  perform pushq.check_isolation();
  update pushq.campaign k set paused_at = null
  where k.queue_id = q and k.key = $2 and paused_at is not null and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  update pushq.fan_out o set paused = false, send_by = coalesce($3, o.send_by)
  where o.queue_id = q and o.campaign_id = c
  returning * into f;
  perform pushq.check_times(f.start_at, 'start_at', send_by);
  if exists (select from pushq.campaign_progress p where p.queue_id = q and p.campaign_id = c and not p.finished) then
    select m.expiration into until
    from pushq.message m where m.day = f.message_day and m.queue_id = q and m.id = f.message_id;
    if until > 0 and until <= extract(epoch from now()) then
      raise exception using errcode = 'PQ409',
        message = format('the message of campaign “%s” expired at %s', key, to_timestamp(until)),
        hint = 'cancel it, and start another one under a new key';
    elsif f.send_by <= now() then
      raise exception using errcode = 'PQ409',
        message = format('the time to send campaign “%s” ended at %s, while it was paused', key, f.send_by),
        hint = 'resume it with a new send_by, or cancel it';
    end if;
  end if;
  -- By the index of what is ready, whose last entries of a lane are those that wait for this.
  update pushq.job j set run_at = now()
  where j.queue_id = q and j.lane = f.lane and j.run_at = 'infinity' and j.campaign_id = c
    -- What was set aside because its end is refused, is resumed by hand alone.
    and not exists (
      select from pushq.stuck_job s
      where s.queue_id = j.queue_id and s.job_id = j.id and s.set_aside_at is not null);
  if resume_campaign.send_by is not null then
    update pushq.job j set send_by = $3 where j.queue_id = q and j.lane = f.lane and j.campaign_id = c;
  end if;
  perform pushq.wake(q);
  return true;
end $$;

-- Cancels a campaign permanently: no more jobs are made, and those that wait are due at once. The worker that
-- claims or holds one ends it: untouched recipients as cancelled, uncertain ones as unknown. Recipients of a list
-- that are in no job yet are counted as cancelled here. Of a campaign to all devices nobody knows them.
create or replace function pushq.cancel_campaign(queue text, key text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
  c bigint;
  f pushq.fan_out;
begin
  perform pushq.check_isolation();
  update pushq.campaign k set cancelled_at = now(), paused_at = null
  where k.queue_id = q and k.key = $2 and cancelled_at is null returning id into c;
  if c is null then return false; end if;
  -- Waits for a step of fan-out that is under way.
  select o.* into f from pushq.fan_out o where o.queue_id = q and o.campaign_id = c for no key update;
  update pushq.fan_out o
  set done = true, done_at = coalesce(o.done_at, now()), paused = false, rest = '{}',
      not_made = coalesce((
        select l.token_count - o.made from pushq.list l where not o.done and l.queue_id = q and l.id = o.list_id), 0)
  where o.queue_id = q and o.campaign_id = c;
  -- Its jobs are all in one lane, the retries among them. In the bulk lane no sends are scheduled that would be read
  -- here.
  update pushq.job j set run_at = now()
  where j.queue_id = q and j.lane = f.lane and j.run_at > now() and j.campaign_id = c;
  perform pushq.tell('root', c);
  perform pushq.wake(q);
  return true;
end $$;
