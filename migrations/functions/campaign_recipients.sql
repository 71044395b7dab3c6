-- Who got the push of a campaign, and what their tokens are now: for a correction to exactly those.

-- A page of a campaign's recipients with these outcomes. It is read from the jobs with the lowest numbers after `last`,
-- `most` of them: jobs that have ended, as long as history is kept, and others as far as outcomes are known. `upto` is
-- the last of these jobs, the `last` of the next page; null at the end. With `share`, a page has only the recipients of
-- this share, so it may have none.
--
-- A page shows its jobs at one moment. A recipient that continues in another job is found there: that job is created
-- later, and so has a higher number. A job is in one page only, so an outcome that comes after its page is not seen.
--
-- A recipient that failed or was rejected after a push without an answer may have got that push, just like one whose
-- outcome is unknown. So it belongs to `unknown`, too: `doubtful` is the number of those that are here for this reason
-- alone, whatever became of their devices. Until a job has ended, its failures in doubt are stored as waiting.
--
-- `device_ids`, `tokens` and `user_keys` are the devices as they are now: of a recipient whose token was replaced, the
-- newest one, to which `replaced_by` points directly (functions/successors.sql). Two recipients may have come to be the
-- same device. `may_repeat` is true for each device of which that is possible, so that a reader has to remember only
-- these. The recipients without a device are counted: `forgotten` ones were erased, `inactive` ones have neither an
-- active token nor an active successor, and `lost` ones are unknown, because their job's day is past retention.
create or replace function pushq.show_recipients(
  queue text, campaign text, of_outcomes text[], last bigint, most bigint, share text default null, out upto bigint,
  out device_ids bigint[], out tokens bytea[], out user_keys text[], out may_repeat boolean[], out forgotten bigint,
  out inactive bigint, out lost bigint, out doubtful bigint
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  q    int := (pushq.enter(queue, sends => false)).q;
  root bigint;
  days date[];                                            -- no job of the campaign has ended before
  its  bigint;                                            -- the message of the share; null: those of all shares
begin
  perform pushq.check_row_limit(most, 1000), pushq.check_outcomes(of_outcomes);
  select c.id, array(
           select d
           from unnest(pushq.days_of('result')) d
           where d >= (c.created_at at time zone 'UTC')::date - 1)
  into root, days
  from pushq.campaign c
  where c.queue_id = q and c.key = show_recipients.campaign;
  if root is null then
    perform pushq.refuse_campaign(queue, campaign);
  end if;
  if share is not null then
    its := pushq.message_of_share(q, root, share);
  end if;
  -- One statement reads all tables: between two statements, a job can be claimed, given back, or end.
  with page as materialized (
    select p.*
    from (
      (select e.job_id, e.body_day, e.message_id, e.outcomes, e.losses, e.retried_at
       from unnest(days) k(day)
       cross join lateral (
         select r.job_id, r.body_day, r.message_id, r.outcomes, r.losses, r.retried_at
         from pushq.result r
         where r.day = k.day and r.queue_id = q and r.root_id = root and r.job_id > last
         order by r.job_id
         limit most) e)
      union all
      (select j.id, j.body_day, j.message_id, j.outcomes, null, null
       from pushq.job j
       where j.queue_id = q and j.root_id = root and j.outcomes is not null and j.id > last)
      union all
      (select l.job_id, l.body_day, l.message_id, l.outcomes, null, null
       from pushq.lease l
       where l.queue_id = q and l.root_id = root and l.job_id > last)) p
    order by p.job_id
    limit most),
  whole as materialized (
    select p.outcomes, p.losses, p.retried_at, b.job_id is not null as is_kept, b.device_ids
    from page p
    left join lateral (
      select b.job_id, b.device_ids
      from pushq.body b
      where b.day = p.body_day and b.queue_id = q and b.job_id = p.job_id
      offset 0) b on true
    where its is null or p.message_id = its),
  chosen as materialized (
    select u.id, w.is_kept, m.is_doubtful
    from whole w
    -- Recipients past retention are known by their outcomes alone.
    cross join lateral unnest(
      case when w.is_kept then w.device_ids
           else array_fill(null::bigint, array[octet_length(w.outcomes)]) end) with ordinality u(id, place)
    cross join lateral (
      select pushq.outcome_kind(
               case when u.place <= octet_length(w.outcomes) then get_byte(w.outcomes, u.place::int - 1) end) as kind) k
    cross join lateral (
      select 'unknown' = any (of_outcomes) and k.kind in ('failed', 'rejected') and k.kind <> all (of_outcomes)
               and case when u.place <= octet_length(w.losses)
                        then get_byte(w.losses, u.place::int - 1) > 0 else false end as is_doubtful) m
    -- Failed ones that were retried by hand continue in other jobs.
    where (k.kind = any (of_outcomes) or m.is_doubtful) and (k.kind <> 'failed' or w.retried_at is null)),
  present as materialized (
    select d.id is null as is_forgotten,
           case when d.active then d.id else n.id end as id,
           case when d.active then d.token else n.token end as token,
           case when d.active then d.user_key else n.user_key end as user_key,
           -- With `offset`, PostgreSQL looks up each device, and does not read all that were ever replaced.
           case when d.active then exists (
                  select from pushq.device s where s.queue_id = q and s.replaced_by = d.id offset 0)
                else true end as may_repeat
    from chosen c
    left join lateral (
      select d.id, d.token, d.user_key, d.active, d.replaced_by
      from pushq.device d
      where d.queue_id = q and d.id = c.id
      offset 0) d on true
    left join lateral (
      select n.id, n.token, n.user_key
      from pushq.device n
      where not d.active and n.queue_id = q and n.id = d.replaced_by and n.active
      offset 0) n on true
    where c.is_kept)
  select (select max(p.job_id) from page p),
         coalesce(array_agg(p.id) filter (where p.id is not null), '{}'),
         coalesce(array_agg(p.token) filter (where p.id is not null), '{}'),
         coalesce(array_agg(p.user_key) filter (where p.id is not null), '{}'),
         coalesce(array_agg(p.may_repeat) filter (where p.id is not null), '{}'),
         count(*) filter (where p.is_forgotten),
         count(*) filter (where p.id is null and not p.is_forgotten),
         (select count(*) from chosen c where not c.is_kept),
         (select count(*) from chosen c where c.is_doubtful)
  into upto, device_ids, tokens, user_keys, may_repeat, forgotten, inactive, lost, doubtful
  from present p;
end $$;

-- Refuses outcomes that no recipient can have at its end: otherwise a misspelt one would look like an empty list.
create or replace function pushq.check_outcomes(of_outcomes text[]) returns void
language plpgsql stable as $$
declare
  known text[] := array['delivered', 'rejected', 'failed', 'suppressed', 'expired', 'cancelled', 'unknown'];
  wrong text;
begin
  select w into wrong from unnest(of_outcomes) w where w is null or w <> all (known) limit 1;
  if found or of_outcomes is null then
    raise exception using errcode = 'PQ400',
      message = format('of_outcomes cannot have “%s”%s', coalesce(pushq.shown(wrong, 40), 'null'),
                       pushq.suggestion(wrong, known)),
      hint = format('use %s or %s', array_to_string(trim_array(known, 1), ', '), known[cardinality(known)]);
  end if;
end $$;

-- The message of a campaign's share. Refuses a name that no share has, and the holdout, which has no recipients.
create or replace function pushq.message_of_share(q int, root bigint, share text) returns bigint
language plpgsql stable as $$
declare
  its   bigint;
  names text[];
begin
  select max(s.message_id) filter (where s.name = share), array_agg(s.name order by s.place)
  into its, names
  from pushq.campaign_share s
  where s.queue_id = q and s.campaign_id = root;
  if its is null then
    raise exception using errcode = 'PQ400',
      message = format('the campaign has no share “%s” with recipients', pushq.shown(share, 70)),
      hint = coalesce('use ' || array_to_string(names, ' or '), 'it has no variants and no holdout: name no share');
  end if;
  return its;
end $$;
