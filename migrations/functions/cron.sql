-- Cron expressions: when something runs in a time zone. docs/schedules.md explains them.
--
-- An expression has five fields as in Vixie cron: minute, hour, day of month, month, day of week. Only this file parses
-- and evaluates them. Time zones and their clock changes are PostgreSQL's.

-- Refuses an expression, with the position of the error in it.
create or replace function pushq.refuse_cron(place int, problem text) returns void
language plpgsql stable as $$
begin
  raise exception using errcode = 'PQ400',
    message = format('the cron expression is wrong at position %s: %s', place, problem),
    hint = 'docs/schedules.md explains cron expressions';
end $$;

-- Parses a cron expression: the values of each field, ascending. An error (`PQ400`) names its position. An expression
-- that never runs is an error, too.
--
-- `follows_clock`: its hours begin with `*`, so it runs on through clock changes (`pushq.cron_run`). `needs_both`: it
-- runs on days that fit both fields for days; otherwise one of them is enough.
create or replace function pushq.parse_cron(
  cron text, out minutes int[], out hours int[], out days int[], out months int[], out weekdays int[],
  out follows_clock boolean, out needs_both boolean
)
language plpgsql stable as $$
declare
  short     constant jsonb := '{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
                                "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
                                "@hourly": "0 * * * *"}';
  words     text[];
  positions int[];
  longest   int;
begin
  if length(cron) > 500 then
    perform pushq.refuse_cron(501, 'it is longer than 500 characters');
  end if;
  select array_agg(m.word order by m.n), array_agg(m.place order by m.n)
  into words, positions
  from (
    select part[1] as word, n, (1 + sum(length(part[1])) over (order by n) - length(part[1]))::int as place
    from regexp_matches(cron, E'\\s+|\\S+', 'g') with ordinality s(part, n)) m
  where m.word !~ E'^\\s';
  if words is null then
    perform pushq.refuse_cron(1, 'it is empty');
  elsif words[1] ~ '^@' then
    if not short ? lower(words[1] collate "C") then
      perform pushq.refuse_cron(
        positions[1],
        format('there is no %s%s', pushq.shown_word(words[1]),
               coalesce(nullif(pushq.suggestion(words[1], array(select jsonb_object_keys(short))), ''),
                        ': use @yearly, @monthly, @weekly, @daily or @hourly')));
    elsif cardinality(words) > 1 then
      perform pushq.refuse_cron(positions[2], format('expected the end behind %s', pushq.shown_word(words[1])));
    end if;
    words := string_to_array(short ->> lower(words[1] collate "C"), ' ');
    positions := array_fill(positions[1], array[5]);
  elsif cardinality(words) <> 5 then
    perform pushq.refuse_cron(
      coalesce(positions[6], length(cron) + 1),
      format('expected five fields, which are minute, hour, day of month, month and day of week, not %s',
             cardinality(words)));
  end if;

  minutes := pushq.cron_field('minute', words[1], positions[1]);
  hours := pushq.cron_field('hour', words[2], positions[2]);
  days := pushq.cron_field('day of the month', words[3], positions[3]);
  months := pushq.cron_field('month', words[4], positions[4]);
  weekdays := pushq.cron_field('day of the week', words[5], positions[5]);
  follows_clock := words[2] ~ E'^\\*';
  -- crontab(5): if both fields for days are restricted, that is, do not begin with *, one of them is enough.
  needs_both := words[3] ~ E'^\\*' or words[5] ~ E'^\\*';
  select max(case when m = 2 then 29 when m in (4, 6, 9, 11) then 30 else 31 end) into longest from unnest(months) m;
  if needs_both and days[1] > longest then
    perform pushq.refuse_cron(
      positions[3],
      format('it never runs: %s no day %s',
             case when cardinality(months) = 1 then 'this month has' else 'these months have' end, days[1]));
  end if;
end $$;

-- The values of one field, ascending. Sunday is 0.
create or replace function pushq.cron_field(field text, word text, place int) returns int[]
language plpgsql stable as $$
declare
  low    int   := case when field in ('day of the month', 'month') then 1 else 0 end;
  high   int   := case field when 'minute' then 59 when 'hour' then 23 when 'day of the month' then 31
                             when 'month' then 12 else 7 end;
  found  int[] := '{}';
  part   text;
  pieces text[];                                          -- of a part: *, or first and last value; and the step
  first  int;
  last   int;
begin
  foreach part in array string_to_array(word, ',') loop
    pieces := regexp_match(part, E'^(?:(\\*)|([^-/]+)(?:-([^-/]+))?)(?:/(.*))?$');
    if pieces is null then
      perform pushq.refuse_cron(
        place, case when part = '' then format('a value for the %s is missing', field)
                    else format('expected *, a value or a range such as 1-5 for the %s, not %s', field,
                                pushq.shown_word(part)) end);
    elsif pieces[1] is not null then
      first := low;
      last := case field when 'day of the week' then 6 else high end;
    else
      first := pushq.cron_value(field, pieces[2], low, high, place);
      last := coalesce(pushq.cron_value(field, pieces[3], low, high, place + length(pieces[2]) + 1), first);
      -- A week may end with Sunday: fri-sun.
      if field = 'day of the week' and last = 0 and first > 0 then
        last := 7;
      elsif last < first then
        perform pushq.refuse_cron(
          place, format('the range %s goes backwards: write two, with a comma between them', pushq.shown_word(part)));
      elsif pieces[3] is null and pieces[4] is not null then
        -- Programs interpret this in different ways.
        perform pushq.refuse_cron(
          place, format('a step needs a range or *: did you mean “%s-%s/%s”?', pieces[2],
                        case field when 'day of the week' then 6 else high end, pieces[4]));
      end if;
    end if;
    if pieces[4] !~ '^[0-9]{1,2}$' or pieces[4]::int not between 1 and high then
      perform pushq.refuse_cron(
        place + length(part) - length(pieces[4]),
        format('expected a step from 1 to %s for the %s, not %s', high, field, pushq.shown_word(pieces[4])));
    end if;
    found := found || array(select generate_series(first, last, coalesce(pieces[4]::int, 1)));
    place := place + length(part) + 1;
  end loop;
  return array(select distinct case field when 'day of the week' then v % 7 else v end from unnest(found) v order by 1);
end $$;

-- One value of a field: a number, or the first three letters of a month or a day; null for null.
create or replace function pushq.cron_value(field text, word text, low int, high int, place int) returns int
language plpgsql stable as $$
declare
  names text[] := case field
                  when 'month' then array['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov',
                                          'dec']
                  when 'day of the week' then array['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] end;
  which int    := array_position(names, lower(word collate "C"));
  short text   := lower(left(word, 3) collate "C");
begin
  if word is null then
    return null;
  elsif word ~ '^[0-9]{1,2}$' and word::int between low and high then
    return word::int;
  elsif which is not null then
    return which - 1 + low;
  end if;
  perform pushq.refuse_cron(
    place,
    format('%s is wrong for the %s: use %s to %s%s%s', pushq.shown_word(word), field, low, high,
           coalesce(' or ' || names[1] || ' to ' || names[cardinality(names)], ''),
           case when short = any (names) then format('; did you mean “%s”?', short)
                when names is not null then pushq.suggestion(word, names) else '' end));
end $$;

-- The first and the last time at which the clocks of a zone show a local time. When clocks are put back, they show it
-- twice. When clocks are put forward, they never show it: then both results are later by the skipped time, so that
-- 02:30 becomes 03:30 (RFC 5545 §3.3.5).
--
-- PostgreSQL returns the later of two times, and for a skipped time the shifted one. The earlier one has the UTC offset
-- of the day before.
create or replace function pushq.local_times(local timestamp, time_zone text)
returns table (first timestamptz, last timestamptz)
language sql stable as $$
  select least(case when e.earlier at time zone $2 = $1 then e.earlier end, l.later), l.later
  from (select $1 at time zone $2 as later) l
  cross join lateral (
    select ($1 - ((l.later - interval '24 hours') at time zone $2 - (l.later - interval '24 hours') at time zone 'UTC'))
             at time zone 'UTC' as earlier) e
$$;

-- Whether an expression with these fields runs on a day.
create or replace function pushq.is_cron_day(day date, months int[], days int[], weekdays int[], needs_both boolean)
returns boolean
language sql stable as $$
  select extract(month from $1)::int = any ($2)
    and case when $5 then extract(day from $1)::int = any ($3) and extract(dow from $1)::int = any ($4)
             else extract(day from $1)::int = any ($3) or extract(dow from $1)::int = any ($4) end
$$;

-- The runs of an expression with these fields on a local day, in no order. A run is repeated if two local times are the
-- same instant.
create or replace function pushq.runs_of_day(
  day date, hours int[], minutes int[], follows_clock boolean, time_zone text
) returns setof timestamptz
language sql stable as $$
  select t.run
  from unnest($2) h
  cross join unnest($3) m
  cross join lateral pushq.local_times($1 + make_time(h, m, 0), $5) l
  cross join lateral unnest(
    case when not $4 then array[l.first]
         when l.last at time zone $5 = $1 + make_time(h, m, 0) then array[l.first, l.last] end) t(run)
$$;

-- The number of runs of an expression from one time to another, both included. It counts up to 10,000.
create or replace function pushq.count_runs(cron text, time_zone text, first timestamptz, last timestamptz)
returns bigint
language plpgsql stable as $$
declare
  c record;
begin
  select * into c from pushq.parse_cron(cron);
  return (
    select least(count(distinct r.run), 10000)
    from (
      select t.run
      from generate_series((first at time zone time_zone)::date - 1, (last at time zone time_zone)::date + 1,
                           interval '1 day') d(day)
      cross join lateral pushq.runs_of_day(d.day::date, c.hours, c.minutes, c.follows_clock, time_zone) t(run)
      where pushq.is_cron_day(d.day::date, c.months, c.days, c.weekdays, c.needs_both)
        and t.run between first and last
      -- Each run appears at most twice.
      limit 20000) r);
end $$;

-- The first run of a cron expression after a time, or with `backwards`, the last one up to it. Null if there is none
-- within 41 years: 29 February falls on each day of the week within 40.
--
-- If clocks skip a run's local time, the run is later by the skipped time. If clocks show it twice, the run is at the
-- first of the two (`pushq.local_times`). If the hours begin with `*`, the expression means a rhythm instead of an hour
-- of the day: it runs whenever clocks show a minute that fits, and never at a time that they skip.
create or replace function pushq.cron_run(
  cron text, time_zone text, at timestamptz, backwards boolean default false
) returns timestamptz
language plpgsql stable as $$
declare
  c        record;
  way      int := case when backwards then -1 else 1 end;
  day      date;
  found_on date;                                          -- the first day that has a run
  run      timestamptz;
  best     timestamptz;
begin
  select * into c from pushq.parse_cron(cron);
  for day in
    select d.day
    from (select (at at time zone time_zone)::date + way * generate_series(-1, 14975) as day) d
    where pushq.is_cron_day(d.day, c.months, c.days, c.weekdays, c.needs_both)
  loop
    -- If a zone has skipped a day, a run of the next day may be earlier than a run of this day.
    exit when day <> found_on + way;
    select case when backwards then max(t.run) else min(t.run) end into run
    from pushq.runs_of_day(day, c.hours, c.minutes, c.follows_clock, time_zone) t(run)
    where case when backwards then t.run <= at else t.run > at end;
    best := case when backwards then greatest(best, run) else least(best, run) end;
    found_on := coalesce(found_on, case when run is not null then day end);
  end loop;
  return best;
end $$;

-- When a stored run is due by the server's present time zone data, if that is later than by the data with which it was
-- calculated; null if it is not.
--
-- If it is, the expression has no run at the stored time, and the next run is the stored one. If the run before is
-- nearer, that one is the stored run, and has become earlier. Zones move their clocks by at most three hours, except
-- across the date line.
create or replace function pushq.moved_run(cron text, time_zone text, run timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  following timestamptz := pushq.cron_run(cron, time_zone, run - interval '1 microsecond');
begin
  if following > run and following - run <= interval '3 hours' then
    return case when following - run < run - pushq.cron_run(cron, time_zone, run, backwards => true) then following end;
  end if;
  return null;
end $$;

-- The local time of a run according to its expression, even if clocks skip that time.
create or replace function pushq.run_local(cron text, time_zone text, run timestamptz) returns timestamp
language plpgsql stable as $$
declare
  c     record;
  local timestamp := run at time zone time_zone;
begin
  select * into c from pushq.parse_cron(cron);
  if c.follows_clock then
    return local;
  end if;
  return coalesce((
    select max(s.said)
    from unnest(c.hours) h
    cross join unnest(c.minutes) m
    -- A time that clocks skip at the end of a day falls on the next day.
    cross join lateral (select local::date - n + make_time(h, m, 0) as said from generate_series(0, 1) n) s
    cross join lateral pushq.local_times(s.said, time_zone) t
    where t.first = run), local);
end $$;

-- The next `most` runs after a time; none if this server does not know the time zone.
create or replace function pushq.next_runs(cron text, time_zone text, after timestamptz, most int)
returns timestamptz[]
language plpgsql stable as $$
declare
  runs timestamptz[] := '{}';
begin
  if pushq.known_zone(time_zone) is null then
    return runs;
  end if;
  for i in 1 .. most loop
    after := pushq.cron_run(cron, time_zone, after);
    exit when after is null;
    runs := runs || after;
  end loop;
  return runs;
end $$;
