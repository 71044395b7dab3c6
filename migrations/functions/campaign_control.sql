-- Pausing, resuming and cancelling a campaign.

-- Raises the error for a campaign that does not exist.
create or replace function pushq.refuse_campaign(queue text, key text) returns void
language plpgsql stable as $$
begin
  raise exception using errcode = 'PQ404',
    message = format('there is no campaign “%s” in queue “%s”', pushq.shown(key, 200), queue),
    hint = format('list them with: pushq-admin campaign list %s', queue);
end $$;

-- Raises the same error if queue `q`, whose name is `queue`, has no campaign with that key. The callers use it when
-- they changed nothing: if the campaign exists, there was another reason.
create or replace function pushq.expect_campaign(q int, queue text, key text) returns void
language plpgsql stable as $$
begin
  if not exists (select from pushq.campaign k where k.queue_id = q and k.key = expect_campaign.key) then
    perform pushq.refuse_campaign(queue, key);
  end if;
end $$;

-- Pauses a campaign. It marks the campaign and tells workers, which give its jobs back. A worker that later claims one
-- of its jobs sees the mark and makes the job wait. This function locks neither the jobs nor the counts, because the
-- caller's transaction may last and every job that ends needs the counts. Returns false for a campaign that is already
-- paused or cancelled, or that has ended: all its jobs are created, and none waits or is held.
create or replace function pushq.pause_campaign(queue text, key text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
  c bigint;
begin
  update pushq.campaign k set paused_at = now()
  where k.queue_id = q and k.key = $2 and paused_at is null and cancelled_at is null and pushq.is_under_way(q, k.id)
  returning id into c;
  if c is null then
    perform pushq.expect_campaign(q, queue, key);
    return false;
  end if;
  update pushq.fan_out set paused = true where queue_id = q and campaign_id = c;
  perform pushq.tell('root', c);
  return true;
end $$;

-- The latest time at which any part of an unfinished campaign can be sent. Jobs that are retried by hand have their own
-- end, but devices in no job yet do not wait for it. In a campaign at a local time, each wave and each job has its own
-- end; for recipients that are not sorted into waves yet, the possible time zones give it.
create or replace function pushq.send_end(f pushq.fan_out) returns timestamptz
language plpgsql stable as $$
declare
  of_jobs timestamptz;
begin
  if f.clock is null and not f.done then
    return f.send_by;
  end if;
  of_jobs := greatest(
    (select max(j.send_by) from pushq.unleased_jobs(f) j),
    (select max(case when l.job_id < f.new_end_before then f.send_by else l.send_by end)
     from pushq.lease l
     where l.queue_id = f.queue_id and l.campaign_id = f.campaign_id));
  if f.clock is null then
    return greatest(of_jobs, f.send_by);
  end if;
  return coalesce(
    greatest(
      of_jobs,
      (select max(pushq.wave_end(f, w.due_at))
       from pushq.wave w
       where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id),
      (select max(pushq.wave_end(f, z.due_at))
       from generate_series(-14, 12) behind
       cross join lateral pushq.wave_of(f.clock, format('Etc/GMT%s', to_char(behind, 'FMSG99'))) z(due_at)
       where not f.sorted and not f.done and z.due_at is not null)),
    f.send_by);
end $$;

-- Checks a new end of a campaign, `f.send_by`. Warns about devices that would get nothing, because they are due only
-- after it: those of later waves, those with quiet hours, and those that are tried again. The operator may intend this,
-- to end the campaign early. Refuses the end if no others are left.
create or replace function pushq.check_new_end(f pushq.fan_out) returns void
language plpgsql stable as $$
declare
  late   record;
  others boolean;
begin
  others := not f.sorted and not f.done
    or exists (select from pushq.lease l where l.queue_id = f.queue_id and l.campaign_id = f.campaign_id)
    or exists (select from pushq.unleased_jobs(f) j where j.run_at < f.send_by)
    or exists (
      select
      from pushq.wave w
      where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id and w.due_at < f.send_by);
  for late in
    select x.what, x.name, sum(x.devices) as devices, min(x.due_at) as first, max(x.due_at) as last
    from (
      select 'the local time comes for them' as what, 'wave' as name, w.due_at, cardinality(w.device_ids) as devices
      from pushq.wave w
      where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id and w.due_at >= f.send_by
      union all
      select case when j.is_quiet then 'their quiet hours end' else 'they are tried again' end,
             case when j.is_quiet then 'release' else 'attempt' end, j.run_at, j.recipient_count
      from pushq.unleased_jobs(f) j
      where j.run_at >= f.send_by and j.run_at < 'infinity') x
    group by x.what, x.name
    order by min(x.due_at)
  loop
    if not others then
      raise exception using errcode = 'PQ409',
        message = format('send_by %s is not after the next %s at %s: nothing could be sent', f.send_by, late.name,
                         late.first),
        hint = 'give a later one, or cancel the campaign';
    end if;
    raise warning using
      message = format('%s of its devices would get nothing: it ends at %s, before %s', late.devices,
                       pushq.shown_time(f.send_by), late.what),
      hint = format('to reach them, pause it, and resume it with a send_by after the last %s at %s', late.name,
                    pushq.shown_time(late.last));
  end loop;
end $$;

-- Makes a new end of a campaign, `f.send_by`, hold for all that is not sent yet. What waits beyond it is due then, and
-- ends. If the campaign is given a later end meanwhile, quiet hours and local times are asked again.
create or replace function pushq.set_end(f pushq.fan_out) returns void
language plpgsql as $$
begin
  -- The jobs that `pushq.unleased_jobs` finds.
  update pushq.job j
  set send_by = f.send_by,
      -- A job that is set aside is resumed only by hand.
      run_at = case when j.run_at < 'infinity' then least(j.run_at, f.send_by) else j.run_at end
  where j.queue_id = f.queue_id and j.lane in (f.lane, f.lane % 3) and j.campaign_id = f.campaign_id;
  update pushq.fan_out o
  set start_at = least(f.send_by, (
    select min(w.due_at) from pushq.wave w where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id))
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id and o.sorted and not o.done;
end $$;

-- Refuses to resume an unfinished campaign if nothing of it could be sent: its message has expired, or its time to send
-- has ended.
create or replace function pushq.refuse_past_end(f pushq.fan_out, key text) returns void
language plpgsql stable as $$
declare
  until bigint;
  ends  timestamptz;
begin
  if not exists (
    select
    from pushq.campaign_progress p
    where p.queue_id = f.queue_id and p.campaign_id = f.campaign_id and not p.finished) then
    return;
  end if;
  select m.expiration into until
  from pushq.message m where m.day = f.message_day and m.queue_id = f.queue_id and m.id = f.message_id;
  if until > 0 and until <= extract(epoch from now()) then
    raise exception using errcode = 'PQ409',
      message = format('the message of campaign “%s” expired at %s', pushq.shown(key, 200), to_timestamp(until)),
      hint = 'cancel it, and start another one under a new key';
  end if;
  ends := pushq.send_end(f);
  if ends <= now() then
    raise exception using errcode = 'PQ409',
      message = format(
        'the time to send campaign “%s” ended at %s, while it was paused', pushq.shown(key, 200), ends),
      hint = 'resume it with a new send_by, or cancel it';
  end if;
end $$;

-- Resumes a paused campaign. If its send_by has passed meanwhile, the call must give a new one, because nothing could
-- be sent. A campaign that ended while it was paused loses its mark.
create or replace function pushq.resume_campaign(queue text, key text, send_by timestamptz default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q      int := (pushq.enter(queue, sends => true)).q;
  c      bigint;
  f      pushq.fan_out;
  former timestamptz;                                     -- its end until now
begin
  perform pushq.check_isolation();
  update pushq.campaign k set paused_at = null, paused_reason = null
  where k.queue_id = q and k.key = $2 and paused_at is not null and cancelled_at is null returning id into c;
  if c is null then
    perform pushq.expect_campaign(q, queue, key);
    return false;
  end if;
  perform pushq.check_times(now(), 'now', send_by);
  select o.send_by into former from pushq.fan_out o where o.queue_id = q and o.campaign_id = c;
  update pushq.fan_out o
  set paused = false, send_by = coalesce($3, o.send_by),
      -- The new end applies to all existing jobs, except later retries by hand, which have their own end. Workers give
      -- back the jobs that they hold, and claim them with the new end. Their leases are not changed here, because the
      -- caller's transaction may last.
      new_end_before = case when $3 is null then o.new_end_before else 9223372036854775807 end,
      -- The new end applies to every wave, however late it is.
      clock = case when $3 is null then o.clock else o.clock - 'within' end
  where o.queue_id = q and o.campaign_id = c
  returning * into f;
  -- Otherwise the answers that made the campaign pause itself would pause it again at once.
  update pushq.campaign k
  set (forgiven_at, forgiven, forgiven_bad)
    = (select clock_timestamp(), a.answers, a.bad from pushq.campaign_answers(q, c) a)
  where k.queue_id = q and k.id = c and k.stop_at_errors is not null;
  -- The lanes of `pushq.unleased_jobs`. In the index of ready jobs, the last entries of a lane are the jobs that wait
  -- for this.
  update pushq.job j set run_at = least(now(), pushq.undecided_since(q))
  where j.queue_id = q and j.lane in (f.lane, f.lane % 3) and j.run_at = 'infinity' and j.campaign_id = c
    -- A job that was set aside because its end was refused is resumed only by hand.
    and not exists (
      select from pushq.stuck_job s
      where s.queue_id = j.queue_id and s.job_id = j.id and s.set_aside_at is not null);
  if not f.sorted then
    perform pushq.check_times(f.start_at, 'start_at', send_by);
    -- Nothing of the campaign has been sent yet, so the new end must pass the same checks as the first one.
    if f.clock is not null and send_by is not null then
      perform pushq.check_waves(
        q, f.clock, send_by,
        (select pushq.message_kind(m.push_type, m.payload)
         from pushq.message m
         where m.day = f.message_day and m.queue_id = q and m.id = f.message_id),
        (select k.filter_tree from pushq.campaign k where k.queue_id = q and k.id = c),
        list => f.list_id);
    end if;
  end if;
  if send_by is not null then
    perform pushq.check_new_end(f);
    perform pushq.set_end(f);
    if send_by is distinct from former then
      perform pushq.note_new_end(q, key, former, send_by);
    end if;
    perform pushq.tell('root', c);
  end if;
  perform pushq.refuse_past_end(f, key);
  perform pushq.wake(q);
  return true;
end $$;

-- The recipients of a list campaign that are in no job yet, and those that its holdout or its local time would still
-- leave out. Each token of the list that was not counted before is in one of the three counts.
--
-- Only a look at each device tells whether the holdout or the local time leaves it out. A campaign that is cancelled
-- has to stop now, so up to `most` devices are looked at (0.7 s for 300,000), and the rest is assumed to be like them.
create or replace function pushq.list_left(
  f pushq.fan_out, most int, out recipients bigint, out held_out bigint, out left_out bigint
)
language plpgsql stable as $$
declare
  members bigint;
  unseen  bigint;                                         -- of `members`: those that are in no wave either
  ids     bigint[];                                       -- the devices that are looked at
  held    bigint[] := '{}';
begin
  select l.token_count - f.made - f.held_out - f.left_out into members
  from pushq.list l
  where l.queue_id = f.queue_id and l.id = f.list_id;
  recipients := members;
  held_out := 0;
  left_out := 0;
  if f.sorted or f.clock is null and coalesce((f.shares #>> '{bounds,0}')::bigint, 0) = 0 then
    return;
  end if;
  recipients := cardinality(f.rest) + coalesce((
    select sum(cardinality(w.device_ids))
    from pushq.wave w
    where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id), 0);
  unseen := members - recipients;
  ids := array(
    select m.device_id
    from pushq.list_member m
    where m.queue_id = f.queue_id and m.list_id = f.list_id and m.device_id > f.cursor_device_id
    order by m.device_id
    limit most);
  if ids = '{}' then
    return;
  end if;
  if f.shares is not null then
    select array_agg(s.device_id order by s.device_id) filter (where s.share = 0) into held
    from pushq.shares_of(f.shares, ids) s;
  end if;
  if f.clock is not null then
    select count(*) into left_out from pushq.waves_of(f, ids) w where w.due_at is null;
    select count(*) into held_out from pushq.waves_of(f, held) w where w.due_at is not null;
  else
    held_out := coalesce(cardinality(held), 0);
  end if;
  if cardinality(ids) = most then
    held_out := round(held_out::numeric * unseen / most);
    left_out := round(left_out::numeric * unseen / most);
  end if;
  recipients := members - held_out - left_out;
end $$;

-- Makes all jobs of a cancelled campaign due. If the campaign was paused in a queue that was restored from a backup,
-- its jobs are due since the restore was found, and still count among those that may have been sent
-- (functions/restore.sql).
create or replace function pushq.make_cancelled_due(f pushq.fan_out) returns void
language plpgsql as $$
begin
  -- The lanes of `pushq.unleased_jobs`. The bulk lane contains no scheduled sends that this statement would have to
  -- read.
  update pushq.job j
  set run_at = case when j.run_at = 'infinity' then least(now(), pushq.undecided_since(j.queue_id)) else now() end
  where j.queue_id = f.queue_id and j.lane in (f.lane, f.lane % 3) and j.run_at > now()
    and j.campaign_id = f.campaign_id;
  perform pushq.wake(f.queue_id);
end $$;

-- Cancels a campaign permanently. No more jobs are created, and waiting jobs are due at once. The worker that claims or
-- holds a job ends it: untouched recipients as cancelled, uncertain ones as unknown. Recipients of a list that are in
-- no job yet are counted as cancelled here; for a campaign to all devices, their number is not known. Returns false for
-- a campaign that was cancelled before, or that has ended: it was sent, and its failed recipients may be retried.
--
-- If a worker ends a job at the same moment, it may not see the cancellation, and this function not the job that goes
-- on with the recipients to send to again. Cancelling again makes that job due, too.
create or replace function pushq.cancel_campaign(queue text, key text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q             int := (pushq.enter(queue, sends => false)).q;
  c             bigint;
  was_cancelled boolean;
  f             pushq.fan_out;
begin
  perform pushq.check_isolation();
  select k.id, k.cancelled_at is not null into c, was_cancelled
  from pushq.campaign k
  where k.queue_id = q and k.key = $2 for no key update;
  if c is null then
    perform pushq.refuse_campaign(queue, key);
  end if;
  -- Waits for a step of the fan-out that is being carried out.
  select o.* into f from pushq.fan_out o where o.queue_id = q and o.campaign_id = c for no key update;
  if was_cancelled then
    perform pushq.make_cancelled_due(f);
    return false;
  elsif f.done and not pushq.has_jobs(f) then
    return false;
  end if;
  update pushq.campaign k set cancelled_at = now(), paused_at = null, paused_reason = null
  where k.queue_id = q and k.id = c;
  update pushq.fan_out o
  set done = true, done_at = coalesce(o.done_at, now()), paused = false, rest = '{}',
      not_made = coalesce(n.recipients, 0), held_out = o.held_out + coalesce(n.held_out, 0),
      left_out = o.left_out + coalesce(n.left_out, 0)
  from (select 1) one
  left join lateral pushq.list_left(f, 300000) n on f.list_id is not null and not f.done
  where o.queue_id = q and o.campaign_id = c;
  delete from pushq.wave w where w.queue_id = q and w.campaign_id = c;
  perform pushq.make_cancelled_due(f);
  perform pushq.tell('root', c);
  return true;
end $$;
