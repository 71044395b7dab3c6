-- Schedules: campaigns that workers start repeatedly by a cron expression (cron.sql). docs/schedules.md explains them.

-- The options of a schedule besides its payload, with their types: the arguments of `pushq.start_filtered_campaign`
-- after the payload. The exceptions are `start_at`, which the schedule decides, and `is_run`.
create or replace function pushq.schedule_options() returns table (name text, type text)
language plpgsql stable as $$
#variable_conflict use_column
begin
  return query
  -- With `quote_all_identifiers`, a session gets the names of types in quotes.
  select a.name, trim(both '"' from format_type(t.type, null))
  from pg_proc p
  cross join unnest(p.proargnames) with ordinality a(name, n)
  join unnest(p.proargtypes::oid[]) with ordinality t(type, n) on t.n = a.n
  where p.oid = 'pushq.start_filtered_campaign'::regproc and a.n > 3
    and a.name not in ('start_at', 'is_run')
  order by a.n;
end $$;

-- SQL for the value of an option of a schedule. The options are the parameter `$4`. Their times are intervals, counted
-- from now. An expiration of zero, in any form, is the 0 of `pushq.start_campaign`. Others are rounded up to whole
-- seconds, because one that is rounded down to the past is refused.
create or replace function pushq.option_sql(name text, type text) returns text
language plpgsql stable as $$
begin
  return case
    when name = 'expiration' then
      '(case when ($4 ->> ''expiration'')::interval = interval ''0'' then 0
             else ceil(extract(epoch from now() + ($4 ->> ''expiration'')::interval)) end)::bigint'
    when type = 'timestamp with time zone' then format('now() + ($4 ->> %L)::interval', name)
    when type = 'json' then format('pushq.compact_json($4 -> %L)', name)
    else format('($4 ->> %L)::%s', name, type) end;
end $$;

-- How the value of an option of a schedule is written, which is JSON of one type; null if it may be of any.
create or replace function pushq.option_form(name text, type text, out json_type text, out remedy text)
language plpgsql stable as $$
begin
  if name = 'expiration' or type in ('interval', 'timestamp with time zone') then
    json_type := 'string';
    remedy := 'write it as an interval, such as "6 hours": times count from the start of a run';
  elsif type = 'text' then
    json_type := 'string';
    remedy := 'write it as a text, in quotes';
  elsif type = 'boolean' then
    json_type := 'boolean';
    remedy := 'write true or false, without quotes';
  elsif type <> 'json' then
    json_type := 'number';
    remedy := format('write it as %s, without quotes', case type when 'integer' then 'a whole number'
                                                                 else 'a number' end);
  end if;
end $$;

-- Starts a campaign with the payload and options of a schedule, once under `key`. Returns its id.
--
-- The call consists of names and types of arguments from PostgreSQL's catalog. The values from the schedule are a
-- parameter. `is_run` is as for `pushq.new_campaign`.
--
-- An interval such as `-1 day 30 hours` means something else in another style. Whoever stores a schedule and whoever
-- runs it may have different ones, so all functions that read one have the same.
create or replace function pushq.start_scheduled(
  q int, key text, payload json, options jsonb, is_run boolean default true) returns bigint
language plpgsql set intervalstyle = 'postgres' as $$
declare
  arguments text;
  campaign  bigint;
begin
  select coalesce(string_agg(format(', %I => %s', o.name, pushq.option_sql(o.name, o.type)), ''), '')
  into arguments
  from pushq.schedule_options() o
  where options ? o.name;
  execute format('select pushq.start_filtered_campaign($1, $2, $3%s, is_run => $5)', arguments)
  into campaign
  using q, key, payload, options, is_run;
  return campaign;
end $$;

-- Makes a campaign that a schedule started at a local time reach each device once for that run (`pushq.run_wave`): the
-- local time counts from the run instead of the start, unless the start is a day later.
create or replace function pushq.follow_run(s pushq.schedule, campaign bigint, run timestamptz) returns void
language plpgsql as $$
begin
  update pushq.fan_out f
  set clock = f.clock || jsonb_build_object('run', pushq.run_local(s.cron, s.time_zone, run), 'run_zone', s.time_zone)
  where f.queue_id = s.queue_id and f.campaign_id = campaign and f.clock ->> 'if_passed' = 'next-day'
    and not f.clock ? 'day' and run > now() - interval '24 hours';
end $$;

-- Why the time zone of a stored schedule cannot be used, or null: this server may not know it (`pushq.known_zone`).
create or replace function pushq.stored_zone_problem(time_zone text) returns text
language plpgsql stable as $$
begin
  if pushq.known_zone(time_zone) is null then
    return format('the time zone “%s” is unknown to this database server', time_zone);
  end if;
  return null;
end $$;

-- The key of the campaign that a schedule starts for a run: the same for every try of the run; null for null.
create or replace function pushq.run_key(schedule text, run timestamptz) returns text
language plpgsql stable as $$
begin
  return schedule || to_char(run at time zone 'UTC', '"@"YYYY-MM-DD"T"HH24:MI"Z"');
end $$;

-- Refuses an invalid schedule. It does not check the cron expression.
create or replace function pushq.check_schedule(
  q int, name text, time_zone text, after_outage text, payload json, options jsonb
) returns void
language plpgsql set intervalstyle = 'postgres' as $$
declare
  problem text := pushq.time_zone_problem(time_zone);
  known   text[];
  unknown text;
  option  record;
begin
  if coalesce(name, '') !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' then
    raise exception using errcode = 'PQ400',
      message = format('“%s” cannot be the name of a schedule', pushq.shown(name, 70)),
      hint = 'use 1 to 63 letters, digits, dots, underscores and hyphens';
  elsif problem is not null or time_zone = '' then
    raise exception using errcode = 'PQ400', message = coalesce(problem, 'the time zone is empty');
  elsif not coalesce(after_outage in ('skip', 'once', 'all'), false) then
    raise exception using errcode = 'PQ400',
      message = format('after_outage cannot be “%s”%s', pushq.shown(after_outage, 40),
                       pushq.suggestion(after_outage, array['skip', 'once', 'all'])),
      hint = 'use skip, once or all';
  elsif jsonb_typeof(options) <> 'object' then
    raise exception using errcode = 'PQ400', message = 'the options are not a JSON object';
  end if;
  known := array(select o.name from pushq.schedule_options() o);
  select k into unknown from jsonb_object_keys(options) k where not k = any (known) order by k limit 1;
  if found then
    raise exception using errcode = 'PQ400',
      message = format('there is no option “%s” of a campaign%s', pushq.shown(unknown, 40),
                       pushq.suggestion(unknown, known)),
      hint = format('the options are: %s', array_to_string(known, ', '));
  elsif options ->> 'local_time' ~ E'^\\d{4}-' then
    raise exception using errcode = 'PQ400',
      message = format(
        'the local time of a schedule has no date, and “%s” has one', pushq.shown(options ->> 'local_time', 40)),
      hint = 'give the time alone, such as 09:00; cron says on which days';
  end if;
  for option in
    select o.name, o.type, f.json_type, f.remedy
    from pushq.schedule_options() o
    cross join lateral pushq.option_form(o.name, o.type) f
    where options ? o.name
  loop
    begin
      -- A cast alone would take 6 for six seconds, and true for a text. An expiration of 0 is no time.
      if option.json_type <> jsonb_typeof(options -> option.name)
        and (option.name, options -> option.name) <> ('expiration', '0') then
        raise data_exception;
      end if;
      execute 'select ' || pushq.option_sql(option.name, option.type) using q, name, payload, options;
    exception when data_exception then
      raise exception using errcode = 'PQ400',
        message = format('the option “%s” cannot be “%s”', option.name, pushq.shown(options ->> option.name, 40)),
        hint = option.remedy;
    end;
  end loop;
  -- It starts a campaign with these values and rolls it back, so that the rules for campaigns are the rules for
  -- schedules.
  begin
    perform pushq.start_scheduled(q, format('%s@%s', name, clock_timestamp()), payload, options);
    -- Not PQ000, which would catch all codes that begin with PQ.
    raise exception using errcode = 'PQ001', message = 'it was a trial';
  -- Quotas are checked last, and count for each run when it is started.
  exception when sqlstate 'PQ001' or sqlstate 'PQ507' then null;
  end;
end $$;

-- Refuses a schedule at a local time whose next run would end before that time has come for all of its audience, as the
-- start of a campaign does. A run itself is not refused for this reason, because then the rest of its audience would
-- get nothing either. Warns if the rate is too low for the schedule's time (`pushq.warn_of_pace`).
create or replace function pushq.check_next_run(
  q int, cron text, time_zone text, run timestamptz, payload json, options jsonb
) returns void
language plpgsql set intervalstyle = 'postgres' as $$
declare
  clock     jsonb := pushq.read_clock(
    options ->> 'local_time', options ->> 'if_passed', (options ->> 'catch_up')::interval, options ->> 'default_zone');
  push_type text  := coalesce(options ->> 'push_type', 'alert');
  aim       text  := pushq.message_kind(push_type, (pushq.read_message(payload)).plain[1]::json);
  tree      jsonb := pushq.with_audiences(
    pushq.tree_of_starts(options ->> 'filter', pushq.started_type(push_type, payload)), q);
  -- Zero is no end: it asks for one attempt.
  kept_for  interval := nullif((options ->> 'expiration')::interval, interval '0');
begin
  if run is null then
    return;
  elsif clock is not null then
    clock := clock || jsonb_build_object('start', run);
    if clock ->> 'if_passed' = 'next-day' then
      clock := clock || jsonb_build_object('run', pushq.run_local(cron, time_zone, run), 'run_zone', time_zone);
    end if;
    perform pushq.check_waves(q, clock, run + least((options ->> 'send_by')::interval, kept_for), aim, tree);
  end if;
  perform pushq.warn_of_pace(
    q, (options ->> 'max_rate')::float8, run, run + (options ->> 'send_by')::interval,
    ceil(extract(epoch from run + kept_for))::bigint, aim,
    pushq.quiet_hours_for(
      q, pushq.read_quiet_hours(options ->> 'quiet_hours'), push_type, (options ->> 'urgent')::boolean),
    tree, clock => clock, holdout => coalesce((options ->> 'holdout')::float8, 0));
end $$;

-- Whether two cron expressions have the same times, even if they are written differently.
create or replace function pushq.is_same_cron(cron text, other text) returns boolean
language sql stable as $$
  select a = b from pushq.parse_cron(cron) a, pushq.parse_cron(other) b
$$;

-- The options of a schedule with the parsed filter, so that differently written filters compare as equal.
create or replace function pushq.meant_options(options jsonb) returns jsonb
language sql stable as $$
  select options || case when options ? 'filter'
                         then jsonb_build_object('filter', pushq.parse_filter(options ->> 'filter')) else '{}' end
$$;

-- The options without those that are null. Nulls within other options stay.
create or replace function pushq.given_options(options jsonb) returns jsonb
language plpgsql stable as $$
begin
  return case when jsonb_typeof(options) <> 'object' then options
              else (select coalesce(jsonb_object_agg(key, value) filter (where value <> 'null'), '{}')
                    from jsonb_each(options)) end;
end $$;

-- Adds a schedule, and returns its next run. An existing schedule is changed only if `replaces`. Repeating the call
-- changes nothing, even if cron, filter and JSON are written differently. A run that is due stays due if the times of
-- the schedule stay the same, and is started with the new content. With other times it is missed.
create or replace function pushq.add_schedule(
  queue        text,
  name         text,
  cron         text,
  payload      anycompatible,
  time_zone    text    default 'UTC',
  after_outage text    default 'skip',
  options      jsonb   default '{}',
  replaces     boolean default false
) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door      record := pushq.enter(queue, sends => true);
  q         int    := door.q;
  body      json   := pushq.payload_json(payload);
  given     jsonb  := pushq.given_options(coalesce(options, '{}'));
  known     pushq.schedule;
  keeps_times boolean;
  following timestamptz;
  missed    timestamptz;                                  -- a run that was due at one of the old times
begin
  after_outage := coalesce(after_outage, 'skip');
  perform pushq.parse_cron(cron);
  perform pushq.keep_audiences(q, given ->> 'filter');
  perform pushq.check_schedule(q, name, coalesce(time_zone, 'UTC'), after_outage, body, given);
  begin
    -- The audit and comparisons read the payload as jsonb, whose numbers have up to 131,072 digits.
    perform body::jsonb;
  exception when numeric_value_out_of_range then
    raise exception using errcode = 'PQ400', message = 'the payload has a number of too many digits',
      hint = 'write a smaller one, or a text';
  end;
  following := pushq.cron_run(cron, coalesce(time_zone, 'UTC'), now());
  insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
  values (q, add_schedule.name, add_schedule.cron, coalesce(add_schedule.time_zone, 'UTC'), add_schedule.after_outage,
          body, given, following)
  on conflict on constraint schedule_pkey do nothing;
  if found then
    perform pushq.check_next_run(q, cron, coalesce(time_zone, 'UTC'), following, body, given);
    if door.has_quota then
      perform pushq.check_quota(q, schedules => 1);
    end if;
    return following;
  end if;
  select s.* into known
  from pushq.schedule s
  where s.queue_id = q and s.name = add_schedule.name
  for no key update;
  if (known.cron, known.time_zone, known.after_outage, pushq.content(known.payload), known.options)
    = (cron, coalesce(time_zone, 'UTC'), after_outage, pushq.content(body), given) then
    return known.next_at;
  end if;
  keeps_times := known.time_zone = coalesce(time_zone, 'UTC') and pushq.is_same_cron(known.cron, cron);
  if replaces is not true then
    if keeps_times and (known.after_outage, pushq.content(known.payload), pushq.meant_options(known.options))
      = (after_outage, pushq.content(body), pushq.meant_options(given)) then
      return known.next_at;
    end if;
    raise exception using errcode = 'PQ409',
      message = format('there is already a different schedule “%s”: %s in %s', name, known.cron, known.time_zone),
      hint = 'replace it (replaces => true, --replace), or use another name';
  end if;
  -- Not checked if only other values have changed, because a phone may have travelled since the last check.
  if not keeps_times or pushq.meant_options(known.options) <> pushq.meant_options(given) then
    perform pushq.check_next_run(q, cron, coalesce(time_zone, 'UTC'), following, body, given);
  end if;
  if known.paused_at is not null then
    null;                                                 -- a paused schedule has no run that is due
  elsif keeps_times then
    following := known.next_at;
  elsif known.next_at <= now() and pushq.known_zone(known.time_zone) is null then
    missed := known.next_at;
  elsif known.next_at <= now() then
    missed := greatest(known.next_at, pushq.cron_run(known.cron, known.time_zone, now(), backwards => true));
  end if;
  update pushq.schedule s
  set cron = add_schedule.cron, time_zone = coalesce(add_schedule.time_zone, 'UTC'),
      after_outage = add_schedule.after_outage, payload = body, options = given, next_at = following,
      missed_at = coalesce(missed, s.missed_at), problem = null, failures = 0, retry_at = null
  where s.queue_id = q and s.name = add_schedule.name;
  return following;
end $$;

-- Raises the error for a schedule that does not exist.
create or replace function pushq.refuse_schedule(queue text, name text) returns void
language plpgsql stable as $$
begin
  raise exception using errcode = 'PQ404',
    message = format('queue “%s” has no schedule “%s”', queue, pushq.shown(name, 70)),
    hint = format('list them with: pushq schedule list %s', queue);
end $$;

-- Removes a schedule. Campaigns that it has started continue. Returns whether the schedule existed.
create or replace function pushq.remove_schedule(queue text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  delete from pushq.schedule s where s.queue_id = q and s.name = remove_schedule.name;
  return found;
end $$;

-- Pauses a schedule: it starts no more campaigns. Campaigns that it has started continue. Returns whether it was
-- running.
create or replace function pushq.pause_schedule(queue text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  update pushq.schedule s set paused_at = now()
  where s.queue_id = q and s.name = pause_schedule.name and s.paused_at is null;
  if found then
    return true;
  elsif not exists (select from pushq.schedule s where s.queue_id = q and s.name = pause_schedule.name) then
    perform pushq.refuse_schedule(queue, name);
  end if;
  return false;
end $$;

-- Resumes a paused schedule with its next run from now on. Runs from the time of the pause were not wanted, so they do
-- not count as missed. Returns whether it was paused.
create or replace function pushq.resume_schedule(queue text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q       int := (pushq.enter(queue, sends => true)).q;
  problem text;
begin
  select pushq.stored_zone_problem(s.time_zone) into problem
  from pushq.schedule s
  where s.queue_id = q and s.name = resume_schedule.name and s.paused_at is not null;
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem,
      hint = 'update the server''s time zone data, or replace the schedule (replaces => true, --replace)';
  end if;
  update pushq.schedule s
  set paused_at = null, next_at = pushq.cron_run(s.cron, s.time_zone, now()), problem = null, failures = 0,
      retry_at = null
  where s.queue_id = q and s.name = resume_schedule.name and s.paused_at is not null;
  if found then
    return true;
  elsif not exists (select from pushq.schedule s where s.queue_id = q and s.name = resume_schedule.name) then
    perform pushq.refuse_schedule(queue, name);
  end if;
  return false;
end $$;

-- Starts the campaign of a schedule now, even if the schedule is paused, and changes nothing for its runs. Returns the
-- campaign's key.
create or replace function pushq.run_schedule(queue text, name text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q   int  := (pushq.enter(queue, sends => true)).q;
  s   pushq.schedule;
  key text := format('%s@%s', name, pushq.utc_text(clock_timestamp()));
begin
  select x.* into s from pushq.schedule x where x.queue_id = q and x.name = run_schedule.name;
  if not found then
    perform pushq.refuse_schedule(queue, name);
  end if;
  perform pushq.start_scheduled(q, key, s.payload, s.options, is_run => false);
  return key;
end $$;

-- The number of runs of a schedule that are left out up to `last`, and the first and the last of them in words; null
-- for null.
create or replace function pushq.runs_left_out(
  s pushq.schedule, last timestamptz, out runs bigint, out first_run text, out last_run text
)
language plpgsql stable as $$
begin
  if last is not null then
    runs := pushq.count_runs(s.cron, s.time_zone, s.next_at, last);
    first_run := pushq.shown_time(s.next_at);
    last_run := pushq.shown_time(last);
  end if;
end $$;

-- Whether a run of a schedule is due. In SQL, so that PostgreSQL can use the index of the next runs.
create or replace function pushq.is_due(s pushq.schedule) returns boolean
language sql stable as $$
  select s.paused_at is null and s.next_at <= now()
    -- No run waits longer than 15 minutes for another try: a later time was written before the database's clock was set
    -- back.
    and (s.retry_at is null or s.retry_at <= now() or s.retry_at > now() + interval '30 minutes')
$$;

-- Starts the due run of one schedule, over all queues, and returns what happened. No row if nothing is due, or if today
-- has no partition yet, as after days without a worker. A schedule that another transaction has locked is skipped.
--
-- The campaign and the schedule's next run are written in one transaction, so a worker that is lost in between has
-- changed nothing. A run's campaign has the run's key, so that there is never a second one. Several runs are due if no
-- worker has started them for a while: 'all' starts each, oldest first; 'once' and 'skip' start only the last one, and
-- 'skip' leaves that out, too, if it is more than an hour late. A run that cannot be started is tried again after a
-- minute, then after twice the time each, up to 15 minutes.
--
-- Tenants take turns, and so do the schedules of one tenant: the next schedule is the one that was tried the longest
-- ago, of the tenant of which that is true. So others are not held up by many schedules whose runs fail, nor by a
-- schedule that catches up on many runs. A producer that has started a campaign under a run's key and not committed
-- does not hold them up either: that run is tried again.
--
-- `event`: 'started', 'missed', 'moved' to a later time by new time zone data, 'failed' or 'failed again' with the same
-- problem. `left_out` is the number of runs that were left out, from `first_left` to `last_left`; null: none.
create or replace function pushq.run_due_schedule()
returns table (event text, queue text, schedule text, run_at timestamptz, shown_at text, campaign text, problem text,
               left_out bigint, first_left text, last_left text)
-- A warning about the campaign would not be a line of the worker's log.
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
set client_min_messages = error as $$
#variable_conflict use_column
declare
  of_tenant int;                                          -- a tenant; the one whose turn was longest ago first
  s         pushq.schedule;
  n         pushq.queue_name;
  following timestamptz;
  skipped   timestamptz;                                  -- the last run that is left out; null: none
begin
  -- The usual case, by an index. The query below looks once at all schedules. Upkeep first makes the day's partitions.
  if not exists (select from pushq.schedule x where pushq.is_due(x))
    or not pushq.has_today() then
    return;
  end if;
  for of_tenant in
    select k.tenant_id
    from pushq.schedule x
    join pushq.queue k on k.id = x.queue_id
    group by k.tenant_id
    having bool_or(pushq.is_due(x))
    order by max(x.tried_at) nulls first
  loop
    -- The tenant is about to leave. Its schedules are checked again where it arrives.
    continue when exists (
      select from pushq.tenant_move m where m.owner = of_tenant and m.leaves and m.stage = 'stopping');
    select x.* into s
    from pushq.schedule x
    join pushq.queue k on k.id = x.queue_id
    where k.tenant_id = of_tenant and pushq.is_due(x)
      -- The run may already have been started before the database was restored.
      and not exists (select from pushq.restored_queue r where r.queue_id = x.queue_id)
    order by x.tried_at nulls first, x.next_at
    limit 1
    for no key update of x skip locked;
    exit when found;
  end loop;
  if s.queue_id is null then
    return;
  end if;
  select x.* into n from pushq.queue_name x where x.queue_id = s.queue_id;
  queue := n.name;
  schedule := s.name;
  run_at := s.next_at;
  shown_at := pushq.shown_time(run_at);
  begin
    -- Any error from here on is a problem of this schedule only.
    problem := pushq.stored_zone_problem(s.time_zone);
    if problem is not null then
      raise exception using errcode = 'PQ400', message = problem;
    end if;
    following := pushq.moved_run(s.cron, s.time_zone, s.next_at);
    if following is not null then
      update pushq.schedule x
      set next_at = following, tried_at = clock_timestamp(), problem = null, failures = 0, retry_at = null
      where x.queue_id = s.queue_id and x.name = s.name;
      event := 'moved';
      return next;
      return;
    end if;
    if s.after_outage <> 'all' then
      run_at := greatest(s.next_at, pushq.cron_run(s.cron, s.time_zone, now(), backwards => true));
      shown_at := pushq.shown_time(run_at);
    end if;
    following := pushq.cron_run(s.cron, s.time_zone, case when s.after_outage = 'all' then s.next_at else now() end);
    if s.after_outage = 'skip' and run_at < now() - interval '1 hour' then
      update pushq.schedule x
      set next_at = following, missed_at = run_due_schedule.run_at, tried_at = clock_timestamp(), problem = null,
          failures = 0, retry_at = null
      where x.queue_id = s.queue_id and x.name = s.name;
      select * into left_out, first_left, last_left from pushq.runs_left_out(s, run_at);
      event := 'missed';
      problem := s.problem;
      return next;
      return;
    elsif run_at > s.next_at then
      skipped := pushq.cron_run(s.cron, s.time_zone, run_at - interval '1 microsecond', backwards => true);
    end if;
    campaign := pushq.run_key(s.name, run_at);
    if n.suspended_at is not null then
      raise exception using errcode = 'PQ403', message = format('tenant “%s” is suspended', n.tenant);
    end if;
    -- A campaign with that key belongs to this run.
    if not exists (select from pushq.campaign c where c.queue_id = s.queue_id and c.key = campaign) then
      perform pushq.follow_run(s, pushq.start_scheduled(s.queue_id, campaign, s.payload, s.options), run_at);
    end if;
    event := 'started';
    update pushq.schedule x
    set next_at = following, run_at = run_due_schedule.run_at, started_at = now(),
        missed_at = coalesce(skipped, x.missed_at), tried_at = clock_timestamp(), problem = null, failures = 0,
        retry_at = null
    where x.queue_id = s.queue_id and x.name = s.name;
    select * into left_out, first_left, last_left from pushq.runs_left_out(s, skipped);
  exception when others then
    problem := case sqlstate when '55P03' then format('another transaction holds campaign “%s”', campaign)
                             else sqlerrm end;
    campaign := null;
    event := case when s.problem = problem then 'failed again' else 'failed' end;
    update pushq.schedule x
    set problem = run_due_schedule.problem, failures = x.failures + 1, tried_at = clock_timestamp(),
        retry_at = now() + least(interval '1 minute' * 2 ^ least(x.failures, 4), interval '15 minutes')
    where x.queue_id = s.queue_id and x.name = s.name;
  end;
  return next;
end $$;

-- The schedules of a queue by name, or the one with a name, with `most` next runs of each: up to 100; null means one.
-- Without a queue: those of all queues that the caller may look at. With `matching`, those whose names contain it; with
-- `in_state`, those that are `active`, `paused` or `held up`; `at_most` of them, or all if null.
--
-- `problems` says in words why a schedule starts nothing at present, or why nothing is sent of what it starts.
create or replace function pushq.show_schedules(
  queue text, name text, most int, matching text default null, in_state text default null, at_most bigint default null
)
returns table (tenant text, app text, environment text, schedule text, cron text, time_zone text, after_outage text,
               payload json, options jsonb, state text, next_runs timestamptz[], run_at timestamptz,
               campaign text, missed_at timestamptz, created_at timestamptz, problems text[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  -- Finding a run that is far ahead takes a millisecond.
  perform pushq.check_row_limit(most, 100), pushq.check_row_limit(at_most),
          pushq.check_state(in_state, array['active', 'paused', 'held up']);
  most := coalesce(most, 1);
  return query
  select n.tenant, n.app, n.environment, s.name, s.cron, s.time_zone, s.after_outage, s.payload, s.options, c.state,
         case when s.paused_at is not null then pushq.next_runs(s.cron, s.time_zone, now(), most)
              else (array[s.next_at]
                    || pushq.next_runs(s.cron, s.time_zone, greatest(s.next_at, now()), most - 1))[:most] end,
         s.run_at, pushq.run_key(s.name, s.run_at), s.missed_at, s.created_at, p.problems
  from pushq.schedule s
  join pushq.queue_name n on n.queue_id = s.queue_id
  join pushq.queue q on q.id = s.queue_id
  cross join lateral pushq.stored_zone_problem(s.time_zone) z(problem)
  cross join lateral (
    select array_remove(array[
      case when s.paused_at is not null
           then format('it is paused since %s; resume it with: pushq schedule resume %s %s',
                       pushq.shown_time(s.paused_at), n.name, s.name) end,
      case when n.suspended_at is not null
           then format('tenant “%s” is suspended: nothing is started', n.tenant) end,
      case when q.paused_at is not null
           then format('the queue is paused, so its campaigns wait: %s', q.paused_reason) end,
      case when s.problem is not null and s.paused_at is null and n.suspended_at is null
           then format('its run of %s could not be started, and is tried again at %s: %s',
                       pushq.shown_time(s.next_at), pushq.shown_time(s.retry_at), s.problem) end,
      case when s.problem is null then z.problem end,
      case when s.problem is null and z.problem is null and s.paused_at is null and n.suspended_at is null
                and s.next_at < now() - interval '1 minute'
           then format('its run of %s is late: no worker starts it; see: pushq-admin worker list',
                       pushq.shown_time(s.next_at)) end], null)
      || pushq.credential_problems(q) as problems) p
  cross join lateral (
    select case when s.paused_at is not null then 'paused' when p.problems <> '{}' then 'held up'
                else 'active' end as state) c
  where (ids is null or s.queue_id = any (ids)) and (show_schedules.name is null or s.name = show_schedules.name)
    and (matching is null or position(lower(matching) in lower(s.name)) > 0)
    and (in_state is null or c.state = in_state)
  order by n.name, s.name
  limit at_most;
end $$;
