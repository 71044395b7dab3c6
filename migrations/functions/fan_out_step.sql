-- The recipients of a campaign without a filter, of the queue or of the list. It looks at the devices after `after` and
-- up to `last` until it has found `id_limit` recipients, but at no more than `scan_limit` devices. `upto` is the last
-- device that it looked at; null if there was none.
--
-- A campaign reads each of its devices here, which is most of the work of its fan-out. So it reads no more than are
-- needed, and each of the two tables has a statement of its own: a union of both costs as much again for each row.
create or replace function pushq.unfiltered_devices(
  q int, list bigint, aim text, after bigint, last bigint, scan_limit int, id_limit int,
  out ids bigint[], out upto bigint
)
language plpgsql stable
set search_path = pg_catalog, pg_temp as $$
declare
  part     int;                                           -- how many devices are looked at next
  found    bigint[];                                      -- the recipients among them
  replaced bigint[];                                      -- those of them that have a newer token
  older    bigint[];                                      -- the same of all parts
  next     bigint;                                        -- the last device of a part
begin
  ids := '{}';
  loop
    part := least(scan_limit, greatest(id_limit - cardinality(ids), 500));
    -- The condition for recipients is in the aggregate's filter, never in the `where`: the scan would not be bounded.
    if list is null then
      select array_agg(id) filter (where wanted), max(id), array_agg(id) filter (where renewed)
      into found, next, replaced
      from (
        select id, active and coalesce(kind, 'alert') = aim as wanted, replaced_by > last as renewed
        from pushq.device
        where queue_id = q and id > after and id <= last
        order by id
        limit part) d;
    else
      -- An inactive device on a list is a recipient, too: the claim of its job suppresses it.
      select array_agg(device_id), max(device_id)
      into found, next
      from (
        select device_id
        from pushq.list_member
        where queue_id = q and list_id = list and device_id > after
        order by device_id
        limit part) d;
    end if;
    exit when next is null;
    ids := ids || found;
    older := older || replaced;
    upto := next;
    after := next;
    scan_limit := scan_limit - part;
    exit when scan_limit <= 0 or cardinality(ids) >= id_limit;
  end loop;

  -- Without a list, a device that a newer token has replaced since the start counts as the newer token.
  if older <> '{}' then
    ids := array(
      select id from unnest(ids) id
      union all
      select o.id
      from unnest(older) o(id)
      -- Not a join: the planner does not know how few rows there are.
      where (
        select coalesce(n.kind, 'alert') = aim
        from pushq.device d
        cross join lateral pushq.newer_token(d.queue_id, d.id, d.replaced_by, last) n
        where d.queue_id = q and d.id = o.id)
      order by id);
  end if;
end $$;

-- One step of a campaign's fan-out. The number of rows scanned limits the step, so that a rare audience cannot make it
-- endless. Its time is limited, so that an expensive filter does not keep other campaigns waiting for long. A step
-- creates whole jobs, and stores the remaining devices with the cursor, in the same commit as the jobs. Returns the
-- number of jobs created; null if there is nothing to do, or if another worker does it.
--
-- With `campaign` null, it takes the lane's first campaign that no session has locked. The campaigns of a lane fan out
-- one after the other, and a producer that is pausing one in a long transaction does not block the others. The queue's
-- row in `fan_out_turn` keeps other workers from starting the next campaign while a step of the first is being carried
-- out.
create or replace function pushq.fan_out_step(
  queue int, of_lane int, campaign bigint, per_job int, job_limit int, scan_limit int) returns int
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  f     pushq.fan_out;
  tree  jsonb;                                            -- the campaign's parsed filter
  aim   text;                                             -- the kind of device that the message is for
  ids   bigint[];                                         -- left over by the last step, then found by this one
  upto  bigint;                                           -- the last device looked at; null at the end
  goal  int;                                              -- how many devices the step looks for
  jobs  int;                                              -- the number of jobs that are created
  taken int;                                              -- recipients in these jobs
  held  bigint[] := '{}';                                 -- the devices of the campaign's holdout
  due   int;                                              -- how many of `held` would be sent to
  apart bigint[] := '{}';                                 -- campaigns that this step skips
  spent boolean := false;                                 -- whether the time for skipping campaigns is over
begin
  perform from pushq.fan_out_turn t where t.queue_id = queue for update skip locked;
  if not found then
    -- A worker may try to fan out for a queue that was removed a moment ago.
    insert into pushq.fan_out_turn (queue_id)
    select q.id from pushq.queue q where q.id = queue
    on conflict on constraint fan_out_turn_pkey do nothing;
    if not found then
      return null;
    end if;
  end if;
  perform pushq.fit_plans();
  loop
    select * into f
    from pushq.fan_out o
    where o.queue_id = queue and o.lane = of_lane and (campaign is null or o.campaign_id = campaign)
      and not o.done and not o.paused and o.start_at <= now() and o.campaign_id <> all (apart)
      and (not spent or o.message_day = pushq.today())
    order by o.start_at, o.campaign_id
    limit 1
    for no key update skip locked;
    if not found then
      return null;
    end if;
    -- A campaign is skipped after midnight while a producer is copying its message, so it does not block the others.
    -- Finding that out takes 10 ms for each, so with very many of them the search is limited in time, and then only
    -- campaigns that need no message from another day are tried.
    exit when pushq.bring_campaign(f) and not pushq.pause_for_channel(f);
    apart := apart || f.campaign_id;
    spent := clock_timestamp() > now() + interval '0.2 seconds';
  end loop;
  if least(
    f.send_by,
    (select to_timestamp(nullif(m.expiration, 0))
     from pushq.message m
     where m.day = pushq.today() and m.queue_id = f.queue_id and m.id = f.message_id)) <= now()
  then
    -- What is created now only expires, which takes no time of a rate.
    per_job := 500;
    job_limit := greatest(job_limit, 40);
  end if;
  if f.sorted then
    return pushq.deal_wave(f, per_job, job_limit);
  end if;
  select pushq.message_kind(m.push_type, m.payload) into aim
  from pushq.message m
  where m.day = pushq.today() and m.queue_id = f.queue_id and m.id = f.message_id;
  if f.last_device_id is null then
    f.last_device_id := coalesce((select id from pushq.device where queue_id = f.queue_id order by id desc limit 1), 0);
  end if;

  select k.filter_tree into tree from pushq.campaign k where k.queue_id = f.queue_id and k.id = f.campaign_id;
  -- The search ends when there are enough devices for a whole step. Each share may leave almost a job over, and all
  -- shares together more than a step creates. So with shares, the devices left over do not count for the step, or it
  -- might look for a single device.
  goal := case when f.clock is not null then scan_limit
               when f.shares is not null then job_limit * per_job
               else greatest(job_limit * per_job - cardinality(f.rest), 1) end;
  if tree is not null then
    select f.rest || d.ids, d.upto into ids, upto
    from pushq.filtered_devices(
      f.queue_id, aim, tree, f.start_at, f.cursor_device_id, f.last_device_id, scan_limit, goal,
      time_limit => interval '0.2 seconds') d;
  else
    select f.rest || d.ids, d.upto into ids, upto
    from pushq.unfiltered_devices(
      f.queue_id, f.list_id, aim, f.cursor_device_id, f.last_device_id, scan_limit, goal) d;
  end if;

  if f.clock is not null then
    if f.shares is not null then
      select coalesce(array_agg(s.device_id order by s.device_id) filter (where s.share > 0), '{}'),
             coalesce(array_agg(s.device_id order by s.device_id) filter (where s.share = 0), '{}')
      into ids, held
      from pushq.shares_of(f.shares, ids) s;
    end if;
    -- Devices that the clock leaves out do not count as held out: the holdout is as large as its share of the others.
    select count(*) into due from pushq.waves_of(f, held) w where w.due_at is not null;
    update pushq.fan_out o
    set left_out = o.left_out + pushq.sort_into_waves(f, ids) + cardinality(held) - due,
        held_out = o.held_out + due,
        message_day = pushq.today(),
        last_device_id = f.last_device_id,
        cursor_device_id = coalesce(upto, o.cursor_device_id),
        sorted = upto is null
    where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id
    returning * into f;
    -- The next step may be hours away.
    return case when f.sorted then pushq.deal_wave(f, per_job, job_limit) else 0 end;
  end if;

  if f.shares is not null then
    return pushq.fan_out_shares(f, ids, upto, per_job, job_limit);
  end if;

  -- All jobs are full except the last one.
  jobs := case when upto is null then ceil(cardinality(ids)::numeric / per_job)
               else least(cardinality(ids) / per_job, job_limit) end;
  taken := least(cardinality(ids), jobs * per_job);
  if jobs > 0 then
    perform pushq.make_jobs(
      f.queue_id, f.campaign_id, f.message_id, ids[1 : taken], f.lane, now(), f.send_by, f.at_most_once, per_job,
      f.campaign_id, uncertain => f.uncertain_to is not null);
  end if;
  update pushq.fan_out o
  set made = o.made + taken,
      message_day = pushq.today(),
      last_device_id = f.last_device_id,
      done = upto is null,
      done_at = case when upto is null then clock_timestamp() end,
      -- The next step looks again at the devices beyond a full step.
      cursor_device_id = case when jobs = job_limit and upto is not null then ids[taken]
                              else coalesce(upto, o.cursor_device_id) end,
      rest = case when upto is null or jobs = job_limit then '{}' else ids[taken + 1 :] end
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id;
  return jobs;
end $$;
