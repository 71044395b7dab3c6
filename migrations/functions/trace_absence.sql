-- Why a device is in none of the jobs of a send or campaign, or why there is no device to trace (trace.sql).

-- Why a device is not among the recipients of a root, as far as that can be determined.
create or replace function pushq.trace_absence(q int, root bigint, device bigint) returns text
language plpgsql stable as $$
declare
  f    pushq.fan_out;
  c    pushq.campaign;
  d    pushq.device;
  w    pushq.wave;
  aim  text;
  zone text;                                              -- the device's time zone, or else the campaign's
  gone boolean;                                           -- fan-out has passed it, and some recipients are deleted
  held boolean;                                           -- in the holdout, if it is in the audience
  meant boolean := true;                                  -- whether the filter matches it
begin
  select * into d from pushq.device v where v.queue_id = q and v.id = device;
  select * into f from pushq.fan_out o where o.queue_id = q and o.campaign_id = root;
  if f.campaign_id is null then
    return coalesce(pushq.trace_unsuitable(q, root, d), (pushq.trace_nobody(q, root, d.token, null)).what);
  end if;
  if f.made > 0 and not exists (select from pushq.body b where b.queue_id = q and b.root_id = root) then
    return 'the recipients of the campaign are no longer kept';
  end if;
  select * into c from pushq.campaign k where k.queue_id = q and k.id = root;
  -- If a campaign lasts longer than history is kept, its first recipients are deleted before the last ones are sent to.
  gone := (device <= f.cursor_device_id or f.done and c.cancelled_at is null) and device <> all (f.rest)
    and not exists (
      select from pushq.wave x where x.queue_id = q and x.campaign_id = root and device = any (x.device_ids))
    and f.made > (
      select coalesce(sum(cardinality(b.device_ids)), 0)
      from pushq.body b where b.queue_id = q and b.root_id = root and b.slice = 0);
  held := f.shares is not null and (select s.share from pushq.shares_of(f.shares, array[device]) s) = 0;
  select x.* into w
  from pushq.wave x
  where x.queue_id = q and x.campaign_id = root and device = any (x.device_ids);
  select pushq.message_kind(m.push_type, m.payload) into aim
  from pushq.message m
  where m.day = f.message_day and m.queue_id = q and m.id = f.message_id;
  zone := pushq.known_zone(
    coalesce(
      (select p.time_zone from pushq.profile p where p.queue_id = q and p.device_id = device),
      (select p.time_zone from pushq.profile p where p.queue_id = q and p.device_id = d.replaced_by)),
    f.clock ->> 'zone');
  if f.list_id is not null then
    return case
      when d.id is null then 'there is no such device'
      when gone then 'the recipients of the campaign are no longer all kept'
      when f.done and c.cancelled_at is not null then 'it was in no job when the campaign was cancelled'
      -- The list is deleted when fan-out has finished with it.
      when f.done and held and f.held_out > 0
        then 'it was not on the list that the campaign was for, or in the holdout, which gets nothing'
      when f.done and f.left_out > 0
        then 'it was not on the list that the campaign was for, or the campaign''s local time left it out'
      when f.done then 'it was not on the list that the campaign was for'
      when w.due_at is not null then pushq.trace_wave(f, w)
      when not exists (select from pushq.list_member m
                       where m.queue_id = q and m.list_id = f.list_id and m.device_id = device)
        then 'it is not on the list that the campaign is for'
      when f.clock is not null and zone is null
        then 'it gets nothing: its time zone is not known, and the campaign names no other'
      when f.clock is not null and pushq.wave_of(f.clock, zone) is null
        then 'it gets nothing: the campaign''s local time has passed in its time zone'
      when held then 'it is in the holdout of the campaign, which gets nothing'
      else 'it is on the campaign''s list, and has not been put into a job yet' end;
  end if;
  -- A device that the clock leaves out does not count as held out.
  held := held and (f.clock is null or coalesce(pushq.wave_of(f.clock, zone) is not null, false));
  if c.filter is not null and d.id is not null and aim is not null then
    meant := device = any (
      (pushq.filtered_devices(q, aim, c.filter_tree, f.start_at, device - 1, device, 1, 1)).ids);
  end if;
  return case
    when d.id is null then 'there is no such device'
    when coalesce(d.kind, 'alert') <> aim then
      format('it was not in the audience: the message is for tokens for %s, and its token is for %s', aim,
             coalesce(d.kind, 'alert'))
    when device > f.last_device_id then 'it was not in the audience: it was added after the campaign had begun'
    when gone then 'the recipients of the campaign are no longer all kept'
    when f.sorted and not f.done and w.due_at is not null then pushq.trace_wave(f, w)
    when not f.done and (device > f.cursor_device_id or device = any (f.rest))
      and not (held and d.active and meant) then
      case when f.start_at > now() then 'not yet: the campaign begins at ' || pushq.shown_time(f.start_at)
           when f.paused then 'not yet: the campaign is paused, and the device is in no job'
           else 'not yet: fan-out has not put it into a job' end
    when c.cancelled_at is not null and device > f.cursor_device_id then
      'it was not reached: the campaign was cancelled before'
    when not d.active then
      format('it was not in the audience: it has been inactive since %s (%s)', pushq.shown_time(d.inactive_since),
             pushq.why_inactive(d))
    when not meant then
      format('it was not in the audience: it does not match the filter “%s”', c.filter)
    when f.left_out > 0 and zone is null then
      'it was left out: its time zone is not known, and the campaign names no other'
    when f.left_out > 0 and pushq.wave_of(f.clock, zone) is null then
      'it was left out: the campaign''s local time had passed in its time zone'
    when held then 'it is in the holdout of the campaign, which gets nothing'
    -- Waves that were not due yet, and devices that filled no whole job, were dropped with the campaign.
    when c.cancelled_at is not null then 'it was not reached: the campaign was cancelled before'
    else 'it was not in the audience: something that is known of it has changed since fan-out reached it' end;
end $$;

-- When a device of this wave is sent to, or that the campaign ends before.
create or replace function pushq.trace_wave(f pushq.fan_out, w pushq.wave) returns text
language plpgsql stable as $$
begin
  return case
    when w.due_at >= f.send_by then
      format('it gets nothing: the campaign ends at %s, before its local time in the device''s time zone, at %s',
             pushq.shown_time(f.send_by), pushq.shown_time(w.due_at))
    else 'not yet: in its time zone, the campaign''s local time is at ' || pushq.shown_time(w.due_at) end;
end $$;

-- Why a user's device is not among the recipients of a send to the user; null for another device, and if the send has
-- no job.
create or replace function pushq.trace_unsuitable(q int, root bigint, d pushq.device) returns text
language plpgsql stable as $$
declare
  m pushq.message;
begin
  select x.* into m
  from pushq.body b
  cross join lateral (
    select coalesce(
      (select r.message_id from pushq.result r where r.queue_id = q and r.root_id = root and r.job_id = b.job_id),
      (select l.message_id from pushq.lease l where l.queue_id = q and l.job_id = b.job_id),
      (select j.message_id from pushq.job j where j.queue_id = q and j.id = b.job_id)) as id) its
  join pushq.message x on x.day = b.day and x.queue_id = q and x.id = its.id
  where b.queue_id = q and b.root_id = root and b.slice = 0 and b.device_ids <> '{}' and x.user_key = d.user_key
  limit 1;
  return case
    when m.id is null then null
    when coalesce(d.kind, 'alert') <> pushq.message_kind(m.push_type, m.payload) then
      format('the device is not among the recipients of this send: the message is for tokens for %s, and its token is '
             'for %s', pushq.message_kind(m.push_type, m.payload), coalesce(d.kind, 'alert'))
    when not d.active and d.inactive_since <= m.created_at then
      format('the device is not among the recipients of this send: it has been inactive since %s (%s)',
             pushq.shown_time(d.inactive_since), pushq.why_inactive(d)) end;
end $$;

-- Why there is no device to trace, or why none of them is a recipient of a send. `is_found` is false if the token, user
-- or send does not exist.
create or replace function pushq.trace_nobody(
  q int, root bigint, bytes bytea, user_key text, out what text, out is_found boolean
)
language plpgsql stable as $$
declare
  why   text := (select e.why from pushq.empty_send e where e.queue_id = q and e.root_id = root);
  other text;
  f     pushq.fan_out;
begin
  is_found := true;
  -- In a send to several users, other users may have been reached.
  if why is not null and not exists (
    select from pushq.body b where b.queue_id = q and b.root_id = root and b.device_ids <> '{}') then
    what := format('the send reached nobody: %s', why);
    return;
  elsif root is not null and exists (
    select from pushq.body b where b.queue_id = q and b.root_id = root and b.device_ids = '{}') then
    what := 'not yet: the devices of its user are looked up when it is due';
    return;
  end if;
  select * into f from pushq.fan_out o where o.queue_id = q and o.campaign_id = root;
  if f.campaign_id is not null and bytes is null and user_key is null then
    what := case when f.made > 0 then 'the recipients of the campaign are no longer kept'
                 when f.done then 'the campaign reached nobody'
                 when f.paused then 'not yet: the campaign is paused'
                 when f.start_at > now() then 'not yet: the campaign begins at ' || pushq.shown_time(f.start_at)
                 else 'not yet: fan-out has put nobody into a job so far' end;
    return;
  end if;
  if root is null or bytes is null then
    -- Only queues of the same tenant: the caller may not learn about other tenants.
    select string_agg(n.name, ', ') into other
    from pushq.queue own
    join pushq.queue k on k.tenant_id = own.tenant_id and k.id <> own.id
    join pushq.queue_name n on n.queue_id = k.id
    where own.id = q
      and (exists (select from pushq.device v where v.queue_id = k.id and v.token = bytes)
           or exists (select from pushq.device v where v.queue_id = k.id and v.user_key = trace_nobody.user_key));
    is_found := false;
    what := case when bytes is not null then 'there is no such token in this queue'
                 when user_key is not null then 'the user has no device in this queue'
                 else 'there is no such send in this queue, or it is no longer kept' end
      || coalesce('; found in ' || other, '');
    return;
  end if;
  is_found := exists (select from pushq.body b where b.queue_id = q and b.root_id = root);
  what := case
    when exists (select from pushq.body b where b.queue_id = q and b.root_id = root and b.slice = 0)
      then 'the device is not among the recipients of this send'
    when is_found then 'the device is not among the recipients of this send that are still kept'
    else 'there is no such send in this queue, or it is no longer kept' end;
end $$;
