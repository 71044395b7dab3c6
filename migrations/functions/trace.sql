-- The history of one notification, in words: every attempt, or why there was none.
--
-- A notification is a device of a root, which is a send or a campaign. Its jobs are found by the root, and each step
-- from one job to the next by an index, however long history is. Without a root, a limited number of
-- jobs is searched, the queue's newest or the first of a given time: an index by device would slow down every push.

-- Traces the device of `token`, the devices of the user `user_key`, or the device with the number `device` (as in an
-- apns-id). `send` (the number that `pushq.send` returned, or a campaign's) or `campaign` (a key) restricts the trace
-- to that root; alone, they trace its first devices. Otherwise it shows the latest `most` campaigns, and the latest
-- `most` campaigns and sends that the devices were in; null is the default. With `since` or `until`, it shows instead
-- the latest `most` of those that the devices were in and of which a job ended in that time, or waits. `is_found` is
-- false if the device, user or send does not exist.
create or replace function pushq.trace(
  queue text, token text default null, user_key text default null, send bigint default null,
  campaign text default null, device bigint default null, most int default 10, since timestamptz default null,
  until timestamptz default null
)
returns table (device_id bigint, token_start text, root_id bigint, campaign_key text, apns_id uuid, at timestamptz,
               what text, job_id bigint, attempt smallint, worker text, status int, reason text,
               traceparent text, is_found boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  -- The number of jobs that are searched for sends if no number is given: 50,000 take about 50 ms.
  budget       int     := 50000;
  q            int     := (pushq.enter(queue, sends => false)).q;
  bytes        bytea   := case when trace.token is not null then pushq.token(trace.token) end;
  is_timed     boolean := num_nonnulls(trace.since, trace.until) > 0;
  root         bigint;
  ids          bigint[];
  roots        bigint[];
  d            record;
  r            record;
  was_in       boolean;
  was_cut      boolean := false;
  oldest       timestamptz;
  looked_until timestamptz;
begin
  perform pushq.check_row_limit(most);
  most := coalesce(most, 10);
  if num_nonnulls(trace.token, trace.user_key, trace.device) > 1 or num_nonnulls(trace.send, trace.campaign) > 1
    or num_nonnulls(trace.token, trace.user_key, trace.device, trace.send, trace.campaign) = 0 then
    raise exception using errcode = 'PQ400', message = 'the call does not say clearly what to trace',
      hint = 'give a token, a user_key or a device, and perhaps a send or a campaign; or one of these alone';
  elsif is_timed and num_nonnulls(trace.send, trace.campaign) > 0 then
    raise exception using errcode = 'PQ400', message = 'since and until do not go with a send or a campaign',
      hint = 'leave them out: a send or campaign is found whenever it was sent';
  elsif trace.since > trace.until then
    raise exception using errcode = 'PQ400', message = 'since is later than until',
      hint = 'the time begins at since and ends at until';
  end if;
  root := trace.send;
  if trace.campaign is not null then
    select c.id into root from pushq.campaign c where c.queue_id = q and c.key = trace.campaign;
    if root is null then
      perform pushq.refuse_campaign(queue, trace.campaign);
    end if;
  end if;

  -- The devices. Without any to begin with, `most` says how many: none is not the same as that there are none.
  if most = 0 and num_nonnulls(bytes, trace.user_key, trace.device) = 0 then
    return;
  elsif bytes is not null then
    ids := array(select v.id from pushq.device v where v.queue_id = q and v.token = bytes);
  elsif trace.user_key is not null then
    ids := array(
      select v.id from pushq.device v where v.queue_id = q and v.user_key = trace.user_key order by v.id limit 100);
  elsif trace.device is not null then
    ids := array[trace.device];
  else
    -- Each user of a send has a job, and a job has a recipient at least.
    ids := array(
      select u.i
      from (
        select b.device_ids, b.first_device_id
        from pushq.body b
        where b.queue_id = q and b.root_id = root
          and b.slice = (select max(o.slice) from pushq.body o where o.queue_id = q and o.root_id = root)
        order by b.first_device_id
        limit most) b
      cross join unnest(b.device_ids) with ordinality u(i, n)
      order by b.first_device_id, u.n
      limit most);
  end if;
  if ids = '{}' then
    return query
    select null::bigint, null, root, trace.campaign, null::uuid, null::timestamptz,
           n.what, null::bigint, null::smallint, null, null::int, null, null, n.is_found
    from pushq.trace_nobody(q, root, bytes, trace.user_key) n;
    return;
  end if;

  -- The roots that they could have been in.
  if root is not null then
    roots := array[root];
  elsif is_timed then
    select t.roots, t.was_cut, t.looked_until into roots, was_cut, looked_until
    from pushq.trace_within(q, ids, coalesce(trace.since, '-infinity'), coalesce(trace.until, 'infinity'), most,
                            budget) t;
  else
    select t.roots, t.was_cut, t.oldest into roots, was_cut, oldest
    from pushq.trace_latest(q, ids, most, budget) t;
  end if;

  for d in
    select i as id, v.id is not null as is_known, v.token, coalesce(v.kind, 'alert') as kind, v.active, v.registered_at,
           v.inactive_since, pushq.why_inactive(v) as why_inactive, h.channel, h.created_at, h.retired_at,
           coalesce((pushq.reason(h.retired_reason)).reason, 'it was deleted by hand') as why_retired
    from unnest(ids) with ordinality u(i, n)
    left join pushq.device v on v.queue_id = q and v.id = i
    -- The recipient of a broadcast.
    left join pushq.channel h on v.id is null and h.queue_id = q and h.id = i
    order by n
  loop
    device_id := d.id;
    token_start := left(encode(d.token, 'hex'), 8) || '…';
    root_id := null; campaign_key := null; apns_id := null; job_id := null; attempt := null; worker := null;
    status := null; reason := null; traceparent := null;
    is_found := d.is_known or d.channel is not null;
    at := coalesce(d.inactive_since, d.registered_at, d.retired_at, d.created_at);
    what := case
      when d.channel is not null then
        format('its recipient is the channel %s', d.channel)
          || case when d.retired_at is null then '' else ', which was retired then: ' || d.why_retired end
      when not d.is_known then 'there is no device of this number, or it was deleted'
      when d.active and d.registered_at is null then format('the device is active; its token is for %s', d.kind)
      when d.active then format('the device is active; its app last registered its token, which is for %s', d.kind)
      else format('the device has been inactive since then: %s', d.why_inactive) end;
    return next;
    foreach root in array roots loop
      -- Of a number that is no device any more, only what it was in is known.
      continue when not d.is_known and d.channel is null and num_nonnulls(trace.send, trace.campaign) = 0
        and not exists (select from pushq.trace_notification(q, root, d.id));
      root_id := root;
      apns_id := pushq.apns_id(root, d.id);
      select c.key, c.created_at into campaign_key, at from pushq.campaign c where c.queue_id = q and c.id = root;
      if campaign_key is not null then
        what := format('the campaign “%s” was started%s', campaign_key, pushq.trace_share(q, root, d.id));
        return next;
      end if;
      was_in := false;
      for r in select * from pushq.trace_notification(q, root, d.id) loop
        was_in := true;
        is_found := true;
        -- The row for the message itself is left out: a campaign's message is as old as the campaign.
        continue when r.job_id is null and campaign_key is not null;
        at := r.at; what := r.what; job_id := r.job_id; attempt := r.attempt; worker := r.worker; status := r.status;
        reason := r.reason; traceparent := r.traceparent;
        return next;
      end loop;
      job_id := null; attempt := null; worker := null; status := null; reason := null; traceparent := null;
      if not was_in then
        at := null;
        what := pushq.trace_absence(q, root, d.id);
        is_found := (d.is_known or d.channel is not null)
          and (campaign_key is not null or (pushq.trace_nobody(q, root, d.token, null)).is_found);
        return next;
      end if;
    end loop;
  end loop;
  device_id := null; token_start := null; root_id := null; campaign_key := null; apns_id := null; at := null;
  if is_timed and most > 0 and roots = '{}' and looked_until is null then
    what := 'no push for it ended in this time';
    return next;
  end if;
  is_found := true;
  if was_cut then
    what := 'earlier campaigns and sends were left out: raise the limit, or give the number of a send';
    return next;
  end if;
  if oldest is not null then
    at := oldest;
    what := 'sends before this time were not all searched: to trace one, give its number';
    return next;
  end if;
  if looked_until is not null then
    at := looked_until;
    what := format('only the first %s jobs of that time were looked at, up to this moment: name a shorter time',
                   to_char(budget, 'FM999,999'));
    return next;
  end if;
end $$;

-- The apns-id of a notification (QueueCore/Names/APNsID.swift).
create or replace function pushq.apns_id(root bigint, device bigint) returns uuid
language sql immutable parallel safe
return (lpad(to_hex(root >> 12), 12, '0') || '8' || lpad(to_hex(root & 4095), 3, '0')
        || lpad(to_hex((1::bigint << 63) | device), 16, '0'))::uuid;

-- The latest `most` campaigns of a queue, for any audience, and the latest `most` campaigns and sends for one of these
-- devices among the queue's newest `budget` jobs, so that campaigns for other devices do not hide them; the oldest
-- first. `was_cut`: there are more of either. `oldest`: if there are more jobs, all sends after this time were
-- searched.
create or replace function pushq.trace_latest(
  q int, ids bigint[], most int, budget int, out roots bigint[], out was_cut boolean, out oldest timestamptz
)
language plpgsql stable as $$
declare
  lowest      bigint := (select min(i) from unnest(ids) i);
  highest     bigint := (select max(i) from unnest(ids) i);
  campaigns   bigint[];
  found_roots bigint[] := '{}';
  d           date;
  seen        int;
  last        bigint;
  some_roots  bigint[];
begin
  campaigns := array(
    select c.id
    from pushq.campaign c
    where c.queue_id between q and q
    order by c.queue_id desc, c.id desc
    limit most::bigint + 1);
  was_cut := cardinality(campaigns) > most;
  for d in
    select to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') as day
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'pushq.body'::regclass
    order by day desc
  loop
    select count(*), min(b.job_id),
           coalesce(array_agg(distinct b.root_id) filter (
             where b.first_device_id <= highest and b.last_device_id >= lowest and b.device_ids && ids), '{}')
    into seen, last, some_roots
    from (
      select *
      from pushq.body b
      where b.day = d and b.queue_id = q
      order by b.job_id desc
      limit budget) b;
    found_roots := found_roots || some_roots;
    budget := budget - seen;
    if budget <= 0 then
      -- The time at which that job was created is not stored; the job ended later.
      oldest := coalesce(
        (select r.ended_at
         from pushq.body b
         join pushq.result r on r.queue_id = b.queue_id and r.root_id = b.root_id and r.job_id = b.job_id
         where b.day = d and b.queue_id = q and b.job_id = last),
        least(now(), (d + 1) + time '00:00' at time zone 'UTC'));
      exit;
    end if;
  end loop;
  found_roots := array(select distinct r from unnest(found_roots) r order by r desc);
  was_cut := was_cut or cardinality(found_roots) > most;
  roots := array(
    select r
    from (select unnest(campaigns[:most]) union select unnest(found_roots[:most])) l(r)
    order by r);
end $$;

-- The jobs that a device of a root has been in, one after the other, with their ends or their present state.
create or replace function pushq.trace_notification(q int, root bigint, device bigint)
returns table (at timestamptz, what text, job_id bigint, attempt smallint, worker text, status int, reason text,
               traceparent text)
language plpgsql stable as $$
#variable_conflict use_column
declare
  b       pushq.body;
  n       pushq.body;                                     -- of the next job
  e       pushq.result;
  l       pushq.lease;
  j       pushq.job;
  m       pushq.message;
  place   int;
  outcome int;                                            -- 0 while none is known
  kind    text;                                           -- of the outcome
  slices  smallint[];
  -- Sends without an answer: those by then, those that rows have told, and those that no other row tells.
  losses  int;
  told    int        := 0;
  untold  int;
begin
  -- The ranges of the first jobs are disjoint, so the first match is the job; in a campaign with shares or at a local
  -- time they overlap.
  select * into b
  from pushq.body c
  where c.queue_id = q and c.root_id = root and c.slice = 0 and c.first_device_id <= device
    and c.last_device_id >= device and device = any (c.device_ids)
  order by c.first_device_id desc
  limit 1;
  -- The first jobs may be gone with their day while a retry still waits; or the device has replaced another one, for
  -- which the push had waited.
  if not found then
    select * into b
    from pushq.body c
    where c.queue_id = q and c.root_id = root and c.slice < 0 and c.first_device_id <= device
      and c.last_device_id >= device and device = any (c.device_ids)
    order by c.job_id
    limit 1;
  end if;
  for round in 1..1000 loop
    place := array_position(b.device_ids, device);
    exit when b.job_id is null or place is null;
    worker := null; status := null; reason := null;
    select * into e from pushq.result x where x.queue_id = q and x.root_id = root and x.job_id = b.job_id;
    l := null; j := null;
    if e.job_id is null then
      select * into l from pushq.lease x where x.queue_id = q and x.job_id = b.job_id;
      select * into j from pushq.job x where x.queue_id = q and x.id = b.job_id;
    end if;
    if round = 1 then
      select * into m
      from pushq.message x
      where x.day = b.day and x.queue_id = q and x.id = coalesce(e.message_id, l.message_id, j.message_id);
      at := m.created_at;
      what := 'the message was submitted' || case when m.user_key is null then '' else ' for a user' end
        || coalesce('; its traceparent is ' || m.traceparent, '')
        || case when b.slice = 0 then ''
                when exists (select from pushq.body c where c.queue_id = q and c.root_id = root and c.slice = 0)
                  then '; it waited for an earlier token of the installation'
                else '; its first attempts are no longer kept' end;
      traceparent := m.traceparent;
      return next;
    end if;
    job_id := b.job_id;
    outcome := coalesce(get_byte(coalesce(e.outcomes, l.outcomes, j.outcomes), place - 1), 0);
    kind := pushq.outcome_kind(outcome);
    -- Until a job ends, its losses are those of the recipients that wait.
    losses := case when m.at_most_once then 0
                   when e.job_id is not null then coalesce(get_byte(e.losses, place - 1), 0)
                   when outcome = 0 then coalesce(l.losses, j.losses, 0)
                   else told end;
    -- An unknown outcome and a retry without an answer tell of one loss themselves.
    untold := losses - told
      - case when kind = 'unknown'
               or outcome >= 192 and (pushq.reason(outcome & 63)).reason = 'NoAnswer' then 1 else 0 end;
    if untold > 0 then
      at := null; attempt := null;
      what := case
        when untold = 1 then 'it may have been sent once before, by a worker or over a connection that was lost'
        else format('it may have been sent up to %s times before, by workers or over connections that were lost',
                    untold) end;
      return next;
    end if;
    told := losses;
    if e.job_id is null then
      attempt := coalesce(l.attempt, j.attempt);
      worker := pushq.worker_name(l.worker_id);
      at := coalesce(l.run_at, nullif(j.run_at, 'infinity'));
      if outcome <> 0 then
        select * into what, status, reason from pushq.trace_outcome(outcome, null, null, m.at_most_once);
        what := what || '; its job has not ended yet';
      elsif l.job_id is not null then
        what := case when place <= l.watermark then 'a worker holds it, and may have sent it: no answer is known yet'
                     else 'a worker holds it, and has not sent it yet' end;
      elsif j.id is null then
        what := 'its job is gone: it ended at this moment, or was deleted';
      else
        what := pushq.trace_waiting(q, j, device);
      end if;
    else
      at := e.ended_at; attempt := e.attempt; worker := pushq.worker_name(e.worker_id);
      select t.what, t.status, t.reason into what, status, reason
      from pushq.trace_outcome(outcome, e.notes ->> (place - 1)::text, e.retried_at, m.at_most_once) t;
      if outcome = 2 then                                 -- suppressed, without a more exact reason
        what := pushq.trace_suppressed(q, m, device, e.ended_at);
      elsif outcome = 6 then                              -- lacksAttribute (Outcome.swift)
        what := what || coalesce('; it still lacks: ' || pushq.trace_lacks(m, device), '; it has them by now');
      end if;
    end if;
    -- The next job of the recipient: of this or the next attempt, or, after a retry by hand, a new first one.
    slices := case when kind in ('retried', 'postponed') then array[-attempt, -attempt - 1]
                   when kind = 'failed' and e.retried_at is not null then '{-1}' end;
    n := null;
    if slices is not null then
      select * into n
      from pushq.body c
      where c.queue_id = q and c.root_id = root and c.slice = any (slices) and c.first_device_id <= device
        and c.last_device_id >= device and c.job_id > b.job_id and device = any (c.device_ids)
      order by c.day, c.job_id
      limit 1;
    end if;
    -- A recipient that was handed over may reach the end of its next job before its first one ends.
    if kind in ('retried', 'postponed') and e.job_id is not null then
      at := least(at, (select r.ended_at
                       from pushq.result r
                       where r.queue_id = q and r.root_id = root and r.job_id = n.job_id));
    end if;
    return next;
    if slices is null then
      return;
    elsif kind = 'failed' then
      told := 0;
    end if;
    b := n;
    if b.job_id is null and reason = 'GivenBack' then
      what := 'it continues with a newer token of the same installation';
      worker := null; status := null; reason := null;
      return next;
    end if;
  end loop;
end $$;

-- The share of a campaign that a device gets, as the end of a sentence; empty without shares, and for a device that is
-- in none of the campaign's jobs. A newer token gets the share of the device whose push continues to it.
create or replace function pushq.trace_share(q int, root bigint, device bigint) returns text
language plpgsql stable as $$
begin
  return coalesce((
    select format('; this device gets the share “%s”', c.name)
    from (
      select b.job_id
      from pushq.body b
      where b.queue_id = q and b.root_id = root and b.first_device_id <= device
        and b.last_device_id >= device and device = any (b.device_ids)
      limit 1) b
    join pushq.campaign_share c on c.queue_id = q and c.campaign_id = root
      and c.message_id = coalesce(
        (select r.message_id from pushq.result r where r.queue_id = q and r.root_id = root and r.job_id = b.job_id),
        (select l.message_id from pushq.lease l where l.queue_id = q and l.job_id = b.job_id),
        (select j.message_id from pushq.job j where j.queue_id = q and j.id = b.job_id))), '');
end $$;

-- Why a device is inactive: APNs' reason, or who deactivated it. If that is not recorded, the text names several
-- possibilities.
create or replace function pushq.why_inactive(d pushq.device) returns text
language plpgsql stable as $$
begin
  return coalesce(
    (pushq.reason(d.inactive_reason)).reason,
    -- A token that was replaced or logged out has no user.
    case when d.user_key is not null then 'it was deactivated by hand'
         else 'its app has replaced this token, its user has logged out, or it was deactivated by hand' end);
end $$;

-- The name of a worker while it runs; afterwards its number, which logs contain.
create or replace function pushq.worker_name(worker bigint) returns text
language plpgsql stable as $$
begin
  return coalesce((select w.name from pushq.worker w where w.id = worker), to_hex(worker));
end $$;

-- An outcome byte in words (QueueCore/Outcome/Outcome.swift). `note` is the text of a reason that pushq does not know.
create or replace function pushq.trace_outcome(
  outcome int, note text, retried_at timestamptz, at_most_once boolean, out what text, out status int, out reason text
)
language plpgsql stable as $$
begin
  if outcome >= 64 then
    select x.reason, x.status into reason, status from pushq.reason(outcome & 63) x;
    reason := coalesce(note, reason);
  end if;
  status := case when outcome = 1 then 200 else status end;
  what := case
    when outcome = 1 then 'APNs accepted it'
    when outcome = 2 then 'not sent: the device was not one to send to'
    when outcome = 3 then 'not sent: its time to be sent had passed'
    when outcome = 4 then 'not sent: it was cancelled'
    when outcome = 5 and at_most_once then 'perhaps sent: no answer is known, and it is to be sent at most once'
    when outcome = 5 then 'perhaps sent: no answer is known, and it is not sent again'
    when outcome = 6 then
      'not sent: the device lacked attributes that the message has placeholders for, without a default'
    when outcome = 7 then 'not sent: with the device''s attributes the payload was longer than APNs accepts'
    when outcome = 8 then 'not sent: the device has had as many pushes as the queue''s frequency cap allows'
    when outcome = 9 then 'not sent: the device had quiet hours until its time to be sent had passed'
    when outcome between 10 and 31 then 'not sent, for a reason that only a newer version of pushq knows'
    when outcome between 64 and 127 then format('refused for good: %s', reason)
    when outcome between 128 and 191 then format('failed, its attempts are used up; the last answer: %s', reason)
      || case when retried_at is not null then '; sent again by hand at ' || pushq.shown_time(retried_at) else '' end
    when reason = 'GivenBack' then 'a worker gave it back before APNs had accepted it'
    when reason = 'QuietHours' then 'not sent: the device has quiet hours; it is sent after they have ended'
    when reason = 'NoAnswer' then 'sent, but no answer came; it is sent again'
    when reason = 'OtherTransient' then 'refused for now, without a reason; it is sent again'
    else format('refused for now: %s; it is sent again', reason) end;
end $$;

-- Why a recipient was suppressed. An update of a Live Activity gives way to a newer one, and an inactive device gets
-- neither. A send to a user skips a device that belongs to another user by then.
create or replace function pushq.trace_suppressed(q int, m pushq.message, device bigint, ended_at timestamptz)
returns text
language plpgsql stable as $$
begin
  return case
    when m.is_broadcast
      and exists (select from pushq.channel h where h.queue_id = q and h.id = device and h.retired_at <= ended_at)
      then 'not sent: the channel was retired'
    when exists (
      select from pushq.device d where d.queue_id = q and d.id = device and d.inactive_since <= ended_at)
      then 'not sent: the device was inactive'
    -- An update gives way to one that replaces waiting updates, whether it replaces others itself or not. Upkeep
    -- deletes the rows of the newest updates after a week. So if an update that replaces others has no row any more, a
    -- newer one may have had one, too: it is said to have been replaced, unless its device is not one to send it to.
    when exists (
        select from pushq.newest_update n
        where n.queue_id = q and n.recipient_id = device and n.due_at <= ended_at
          and (n.due_at, n.message_id) > (m.due_at, m.id))
      or m.replaces
        and not exists (
          select from pushq.newest_update n
          where n.queue_id = q and n.recipient_id = device and n.due_at = m.due_at and n.message_id = m.id)
        and (m.is_broadcast or exists (
          select from pushq.device d
          where d.queue_id = q and d.id = device and (m.user_key is null or d.user_key = m.user_key)
            and (d.kind is null or d.registered_at is null or d.kind = pushq.message_kind(m.push_type, m.payload))))
      then 'not sent: a newer update had taken its place'
    when m.is_broadcast then 'not sent: the channel was retired'
    when m.user_key is not null
      or exists (
        select from pushq.fan_out f where f.queue_id = q and f.campaign_id = m.root_id and f.is_for_users)
      then 'not sent: the device was inactive, or no longer that user''s'
    else 'not sent: the device was inactive, or its token for pushes of another kind' end;
end $$;

-- The attributes that a device lacks and a personal message uses without a default; null for none.
create or replace function pushq.trace_lacks(m pushq.message, device bigint) returns text
language plpgsql stable as $$
declare
  p       pushq.profile;
  version int;
begin
  select * into p from pushq.profile x where x.queue_id = m.queue_id and x.device_id = device;
  version := pushq.version_for(p.locale, m.languages);
  return (
    select string_agg(name, ', ')
    from unnest((pushq.read_placeholders(
      case when version = 0 then m.payload::text else m.translations[version] end)).required) name
    where nullif(p.attributes -> name, '""') is null);
end $$;

-- Why a job waits, and until when.
create or replace function pushq.trace_waiting(q int, j pushq.job, device bigint) returns text
language plpgsql stable as $$
declare
  k       record;
  t       record;
  problem text;
begin
  select s.problem into problem
  from pushq.stuck_job s
  where s.queue_id = q and s.job_id = j.id and s.set_aside_at is not null;
  if problem is not null then
    return format('it waits: its job was set aside, because PostgreSQL refused to store its end: %s', problem);
  end if;
  select u.paused_reason, n.suspended_at, u.credential_id, c.paused_at as campaign_paused_at,
         c.paused_reason as campaign_reason,
         pushq.given_end(
           case when j.id < f.new_end_before then f.send_by else j.send_by end,
           (select m.expiration
            from pushq.message m
            where m.day = j.body_day and m.queue_id = q and m.id = j.message_id)) as send_by,
         c.cancelled_at is not null
           or exists (select from pushq.cancelled x where x.queue_id = q and x.id in (j.root_id, j.id)) as is_cancelled
  into k
  from pushq.queue u
  join pushq.queue_name n on n.queue_id = u.id
  left join pushq.campaign c on c.queue_id = u.id and c.id = j.campaign_id
  left join pushq.fan_out f on f.queue_id = c.queue_id and f.campaign_id = c.id
  where u.id = q;
  if k.is_cancelled then
    return 'it was cancelled; its job ends ' || case
      when k.suspended_at is not null then 'when the tenant is not suspended any more'
      when k.paused_reason is not null then 'when the queue is resumed'
      else 'when a worker comes to it' end;
  end if;
  t := pushq.worker_trouble(q);
  return case
    when k.suspended_at is not null then 'it waits: the tenant is suspended'
    when k.paused_reason is not null then format('it waits: the queue is paused: %s', k.paused_reason)
    when k.credential_id is null then 'it waits: the queue has no credential'
    when k.campaign_paused_at is not null then
      format('it waits: the campaign is paused%s', coalesce(': ' || k.campaign_reason, ''))
    when j.run_at > now() and j.run_at >= k.send_by then 'it gets nothing: it could be sent only after its time ends'
    when j.run_at > now() and j.is_quiet then
      format('it waits until then: the device has quiet hours%s, and is sent to after they have ended',
             pushq.trace_quiet(q, j.campaign_id, device))
    when j.run_at > now() then
      case when j.attempt > 1 or j.losses > 0 then 'it waits until then for its next attempt'
           else 'it waits until then, when it is due' end
    when not t.alive then 'it waits: no worker is running'
    when not t.serving then 'it waits: no worker serves this queue'
    when t.unusable is not null then
      format('it waits: worker %s cannot use the queue''s credential: %s', t.unusable, t.fault)
    when t.cut_off is not null then format('it waits: worker %s cannot reach APNs', t.cut_off)
    when t.in_outage is not null then format('it waits: APNs answers %s', t.refusal)
    when t.prevented is not null then format('it waits: worker %s does not send: %s', t.prevented, t.prevention)
    else 'it has been due since then, and waits for its turn' end
    || case when k.send_by > now() then '; not sent any more after ' else '; its time to be sent passed at ' end
    || pushq.shown_time(k.send_by);
end $$;

-- A time within a sentence, in the format of the command's columns.
create or replace function pushq.shown_time(t timestamptz) returns text
language plpgsql stable as $$ begin return to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'); end $$;
