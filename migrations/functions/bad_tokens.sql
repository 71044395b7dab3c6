-- Tokens that APNs calls bad: the answers by which they are judged (PostgresStore/Upkeep/Suspects.swift), the verdicts,
-- and the reason for which a queue is paused.

-- The numbers of answers in a queue's jobs that ended at `since` or later, summed by the statement that ended them. It
-- covers at least `most` jobs, or all. Jobs that one statement ended have the same time, and are never split.
--
-- The rows are read in the order of an index and no further, whatever statistics say about a new table. Tomorrow's
-- partition has rows if the database's clock was set back over midnight. Answers that are dated more than a minute
-- ahead are left out: they came before the clock was set back.
create or replace function pushq.answers_since(q int, since timestamptz, most bigint)
returns table (ended_at timestamptz, answers bigint, jobs bigint)
language plpgsql stable set enable_sort = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  select j.ended_at, sum(j.answers)::bigint, count(*)
  from (
    select n.ended_at, n.answers
    from (values (pushq.today() - 1), (pushq.today()), (pushq.today() + 1)) d(day)
    cross join lateral (
      select r.ended_at, r.delivered + r.rejected as answers
      from pushq.result r
      where r.day = d.day and r.queue_id = q and r.ended_at >= since
        and r.ended_at <= clock_timestamp() + interval '1 minute' and r.delivered + r.rejected > 0
      order by r.ended_at
      fetch first (most) rows with ties) n
    order by n.ended_at
    fetch first (most) rows with ties) j
  group by j.ended_at;
end $$;

-- Writes what was decided about reports: one element of each array for each. They are found by their keys. In the
-- statement that decides, a join read all reports of the day when statistics were from a moment with many suspects.
create or replace function pushq.write_verdicts(days date[], queues int[], ids bigint[], verdicts text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
begin
  update pushq.feedback f
  set verdict = v.verdict
  from unnest(days, queues, ids, verdicts) v(day, queue_id, id, verdict)
  where f.day = v.day and f.queue_id = v.queue_id and f.id = v.id;
end $$;

-- The reason for which a queue is paused, in words that an operator can act on.
--
-- Of the last `answers`, `suspects` had `reason`, which is APNs' word. `tokens` are some of these suspects. If devices
-- of another queue of the tenant have the same tokens, that queue shows which environment or app the tokens belong to.
create or replace function pushq.bad_tokens_problem(
  queue int, reason text, suspects bigint, answers bigint, tokens bytea[]
) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  own   pushq.queue_name;
  known record;
  proof text := '';
begin
  select * into own from pushq.queue_name n where n.queue_id = queue;
  select n.name, n.app, n.environment, count(*) as devices into known
  from pushq.queue_name n
  join pushq.device d on d.queue_id = n.queue_id and d.token = any (tokens)
  where n.tenant_id = own.tenant_id and n.queue_id <> queue
  group by n.name, n.app, n.environment
  order by count(*) desc, n.name
  limit 1;
  if known.devices * 2 > cardinality(tokens) then
    proof := format('; %s of the %s that were checked are also devices of %s',
                    known.devices, cardinality(tokens), known.name);
  end if;
  return format('%s of the last %s answers were %s: the tokens are probably ', suspects, answers, reason)
    || case when reason = 'DeviceTokenNotForTopic' or proof <> '' and known.app <> own.app
              then format('of another app than %s', own.app)
            when own.environment = 'production' then
              'of the other environment: of development builds of the app, which belong in its queue for the sandbox'
            else 'of the other environment: of the app from the App Store or TestFlight, which belong in its queue '
                 'for production' end
    || proof || '. No device was deactivated';
end $$;

-- Whether a queue's pause reason is such a text.
create or replace function pushq.is_bad_tokens_problem(reason text) returns boolean
language sql immutable as $$ select reason ~ '^[0-9]+ of the last [0-9]+ answers were ' $$;
