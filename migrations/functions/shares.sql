-- Shares of a campaign: variants of its message, of which each device gets one, and a holdout, which gets nothing.
-- docs/variants.md explains them.
--
-- A device's share depends only on the campaign's key and the device's number. So it is the same in every step, wave,
-- retry and repetition, and any program can compute it. Shares are numbered: 0 is the holdout, 1 the payload itself,
-- and from 2 the variants in their order. `fan_out.shares` has what a step needs:
--   {"key": "spring-sale", "bounds": [429496730, 2362232012]}
-- `bounds` are the beginnings of the shares from 1, on a line of length 2^32.

-- Reads the arguments of a campaign. `names`, `fractions` and `payloads` are those of the variants; `rest` is the
-- fraction that is left for the payload. `content` identifies all of it; null for a campaign without shares.
create or replace function pushq.read_shares(
  variants json, holdout float8, out names text[], out fractions numeric[], out payloads json[], out rest numeric,
  out bounds bigint[], out content text
)
language plpgsql stable as $$
declare
  v      record;
  held   numeric := coalesce(holdout, 0)::numeric;
  wrong  text;
  remedy text;
  given  numeric;
begin
  if not coalesce(holdout >= 0 and holdout < 1, true) then
    raise exception using errcode = 'PQ400', message = format('holdout %s is not a share of the devices', holdout),
      hint = 'it is 0 or more and less than 1, such as 0.1';
  elsif variants is not null and json_typeof(variants) <> 'array' then
    raise exception using errcode = 'PQ400', message = 'the variants are not a JSON array',
      hint = 'write [{"name": "b", "share": 0.5, "payload": {"aps": …}}]';
  elsif strpos(variants::text, E'\\u') > 0 and not pushq.has_readable_escapes(variants::text) then
    raise exception using errcode = 'PQ400',
      message = E'the variants have a \\u escape that is not a character: write the character itself';
  elsif json_array_length(coalesce(variants, '[]')) > 9 then
    raise exception using errcode = 'PQ400',
      message = format('the campaign has %s variants: use at most 9', json_array_length(variants));
  end if;
  names := '{}';
  fractions := '{}';
  payloads := '{}';
  for v in select value, n from json_array_elements(coalesce(variants, '[]')) with ordinality e(value, n) loop
    wrong := null;
    given := null;
    remedy := 'write {"name": "b", "share": 0.5, "payload": {"aps": …}}';
    if json_typeof(v.value) <> 'object' then
      wrong := 'is not a JSON object';
    elsif pushq.repetition(v.value, 'the variant') is not null then
      wrong := 'names a member twice';
    elsif exists (select from json_object_keys(v.value) k where k not in ('name', 'share', 'payload')) then
      wrong := format('has “%s”', (
        select pushq.shown(k, 40)
        from json_object_keys(v.value) k
        where k not in ('name', 'share', 'payload')
        limit 1));
      remedy := 'a variant has a name, a share and a payload';
    elsif json_typeof(v.value -> 'name') is distinct from 'string'
      or v.value ->> 'name' !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' or v.value ->> 'name' in ('payload', 'holdout') then
      wrong := format('cannot be called “%s”', pushq.shown(coalesce(v.value ->> 'name', ''), 70));
      remedy := 'use 1 to 63 letters, digits, dots, underscores and hyphens; payload and holdout are taken';
    elsif v.value ->> 'name' = any (names) then
      wrong := format('is called “%s”, as another one is', v.value ->> 'name');
      remedy := 'give each variant a name of its own';
    elsif json_typeof(v.value -> 'share') is distinct from 'number' then
      wrong := 'has no share';
    elsif coalesce(json_typeof(v.value -> 'payload'), 'null') = 'null' then
      wrong := 'has no payload';
    else
      -- No type can store a number with any exponent, and programs read the share as float8.
      if v.value ->> 'share' !~ '[eE][-+]?[0-9]{3}' then
        given := trim_scale((v.value ->> 'share')::numeric);
      end if;
      if not coalesce(given >= 0.000000001 and given < 1, false) then
        wrong := format('has the share %s', pushq.shown(v.value ->> 'share', 40));
        remedy := 'a share is 0.000000001 or more and less than 1, such as 0.5';
      end if;
    end if;
    if wrong is not null then
      raise exception using errcode = 'PQ400', message = format('variant %s %s', v.n, wrong), hint = remedy;
    end if;
    names := names || (v.value ->> 'name');
    fractions := fractions || given;
    payloads := payloads || (v.value -> 'payload');
  end loop;
  rest := 1 - held - (select coalesce(sum(f), 0) from unnest(fractions) f);
  -- Less than the smallest share of a variant may be nothing on the line of 2^32.
  if rest < 0.000000001 then
    raise exception using errcode = 'PQ400',
      message = format('the variants and the holdout take %s %% together, and leave nobody for the payload',
                       trim_scale((1 - rest) * 100)),
      hint = 'leave a share for the payload: it goes to everybody who is in no other share';
  elsif held = 0 and names = '{}' then
    return;
  end if;
  bounds := array(
    select round(4294967296 * (held + sum(f) over (order by n) - f))::bigint
    from unnest(rest || fractions) with ordinality u(f, n)
    order by n);
  content := row(held, names, fractions, array(select pushq.content(p) from unnest(payloads) p))::text;
end $$;

-- The share of each of these devices. Its place on the line is the first four bytes of the SHA-256 of the key, a zero
-- byte and the device's number (8 bytes, the highest first). It takes 1 µs for each device.
create or replace function pushq.shares_of(shares jsonb, ids bigint[]) returns table (device_id bigint, share int)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  prefix bytea    := convert_to(shares ->> 'key', 'UTF8') || E'\\x00';
  bounds bigint[] := array(select b::bigint from jsonb_array_elements_text(shares -> 'bounds') b);
begin
  return query
  select i, width_bucket(
           (get_byte(h, 0)::bigint << 24) | (get_byte(h, 1) << 16) | (get_byte(h, 2) << 8) | get_byte(h, 3), bounds)
  -- The hash is computed once, not for each of its bytes.
  from (select i, sha256(prefix || int8send(i)) as h from unnest(ids) i offset 0) hashed;
end $$;

-- The fraction of the devices that gets nothing, from the result of `pushq.read_shares`.
create or replace function pushq.held_out(shares record) returns float8
language plpgsql immutable as $$
begin
  return coalesce(shares.bounds[1], 0) / 4294967296::float8;
end $$;

-- The share that a preview gives to the `n`th of `total` tokens that are not devices yet. Their real share depends on a
-- number that they do not have yet, so they are spread evenly over the shares.
create or replace function pushq.dealt_share(n bigint, total bigint, shares jsonb) returns int
language plpgsql immutable as $$
begin
  return width_bucket(
    4294967296 * (n - 0.5::float8) / total,
    array(select b::float8 from jsonb_array_elements_text(shares -> 'bounds') b));
end $$;

-- The number of a campaign's recipients in each share if it were started now, the holdout first. The audience is as for
-- `pushq.count_zones`, without devices in the time zones `without` ('' for those without one).
create or replace function pushq.count_shares(
  q int, aim text, tree jsonb, tokens bytea[], without text[], shares jsonb
) returns bigint[]
language plpgsql stable set enable_nestloop = off set jit = off as $$
declare
  literals  text[] := '{}';
  condition text   := 'true';
  ids       bigint[];
  fresh     bigint;                                       -- tokens of a list that are not devices yet
begin
  if tokens is not null then
    select array_agg(d.id), count(*) filter (where d.id is null)
    into ids, fresh
    from (select distinct t as token from unnest(tokens) t) t
    left join pushq.device d on d.queue_id = q and d.token = t.token
    left join pushq.profile p on p.queue_id = q and p.device_id = d.id
    where coalesce(p.time_zone, '') <> all (without);
    ids := array_remove(ids, null);
  else
    if tree is not null then
      select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(tree, now(), literals) s;
    end if;
    execute format(
      $sql$
      select array_agg(d.id)
      from pushq.device d
      left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
      where d.queue_id = $2 and d.active and coalesce(d.kind, 'alert') = $3 and %s
        and coalesce(p.time_zone, '') <> all ($4)
      $sql$, condition)
    into ids
    using literals, q, aim, without;
  end if;
  return array(
    select coalesce(sum(c.recipients), 0)
    from generate_series(0, jsonb_array_length(shares -> 'bounds')) place
    left join (
      select s.share, count(*) as recipients
      from pushq.shares_of(shares, ids) s
      group by s.share
      union all
      select pushq.dealt_share(n, fresh, shares), count(*)
      from generate_series(1, fresh) n
      group by 1) c on c.share = place
    group by place
    order by place);
end $$;

-- Refuses a variant whose message cannot be sent, is of another kind than the payload, or starts Live Activities of
-- another type.
create or replace function pushq.check_shares(
  q int, shares record, payload json, push_type text, priority int, expiration bigint, collapse_id text
) returns void
language plpgsql stable as $$
declare
  aim text := pushq.message_kind(push_type, (pushq.read_message(payload)).plain[1]::json);
begin
  for n in 1 .. coalesce(cardinality(shares.names), 0) loop
    begin
      perform pushq.check_campaign_message(q, shares.payloads[n], push_type, priority, expiration, collapse_id);
      if pushq.message_kind(push_type, (pushq.read_message(shares.payloads[n])).plain[1]::json) <> aim then
        raise exception using errcode = 'PQ400',
          message = 'its event is for tokens of another kind: use that of the payload';
      elsif pushq.started_type(push_type, shares.payloads[n])
        is distinct from pushq.started_type(push_type, payload) then
        raise exception using errcode = 'PQ400',
          message = 'its attributes-type is for other tokens: use that of the payload';
      end if;
    exception when sqlstate 'PQ400' then
      raise exception using errcode = 'PQ400', message = format('variant “%s”: %s', shares.names[n], sqlerrm);
    end;
  end loop;
end $$;

-- Stores the shares of a campaign, with a message for each of its variants.
create or replace function pushq.add_shares(
  q int, root bigint, key text, shares record, message bigint, push_type text, priority int, expiration bigint,
  collapse_id text, at_most_once boolean, due_at timestamptz
) returns void
language plpgsql as $$
begin
  insert into pushq.campaign_share (queue_id, campaign_id, place, name, fraction, message_id)
  values (q, root, 1, 'payload', shares.rest, message);
  for n in 1 .. cardinality(shares.names) loop
    insert into pushq.campaign_share (queue_id, campaign_id, place, name, fraction, message_id)
    values (q, root, n + 1, shares.names[n], shares.fractions[n],
            pushq.new_campaign_message(
              q, root, shares.payloads[n], push_type, priority, expiration, collapse_id, at_most_once,
              due_at));
  end loop;
  update pushq.fan_out f
  set shares = jsonb_build_object('key', add_shares.key, 'bounds', shares.bounds)
  where f.queue_id = q and f.campaign_id = root;
end $$;

-- Creates jobs for devices of a campaign with shares, ascending: each share has its own jobs with its own message.
-- `rest` are the devices that are too few for a whole job, ascending; none with `all_of_them`. `held` is the number of
-- devices in the holdout, and `taken` the number in jobs. `uncertain` is as for `pushq.make_jobs`.
create or replace function pushq.make_share_jobs(
  f pushq.fan_out, ids bigint[], send_by timestamptz, per_job int, all_of_them boolean, uncertain boolean,
  out jobs int, out taken bigint, out held bigint, out rest bigint[]
)
language plpgsql as $$
declare
  s     record;
  count int;                                              -- the number of this share's jobs
  part  bigint[];                                         -- the devices in these jobs
begin
  jobs := 0;
  taken := 0;
  held := 0;
  rest := '{}';
  for s in
    select d.share, d.ids, c.message_id
    from (
      select x.share, array_agg(x.device_id order by x.device_id) as ids
      from pushq.shares_of(f.shares, ids) x
      group by x.share) d
    left join pushq.campaign_share c
      on c.queue_id = f.queue_id and c.campaign_id = f.campaign_id and c.place = d.share
    order by d.share
  loop
    if s.share = 0 then
      held := cardinality(s.ids);
      continue;
    end if;
    count := case when all_of_them then ceil(cardinality(s.ids)::numeric / per_job)
                  else cardinality(s.ids) / per_job end;
    part := s.ids[1 : count * per_job];
    if count > 0 then
      perform pushq.make_jobs(
        f.queue_id, f.campaign_id, s.message_id, part, f.lane, now(), send_by, f.at_most_once, per_job, f.campaign_id,
        uncertain => make_share_jobs.uncertain);
      update pushq.campaign_share c
      set made = c.made + cardinality(part)
      where c.queue_id = f.queue_id and c.campaign_id = f.campaign_id and c.place = s.share;
    end if;
    jobs := jobs + count;
    taken := taken + cardinality(part);
    rest := rest || s.ids[count * per_job + 1 :];
  end loop;
  rest := array(select i from unnest(rest) i order by i);
end $$;

-- A step of the fan-out of a campaign with shares (`pushq.fan_out_step`). `ids` begins with the devices that the last
-- step left over; `upto` is the last device looked at, null at the end. Returns the number of jobs created: at most
-- `job_limit`, plus one for each share.
create or replace function pushq.fan_out_shares(
  f pushq.fan_out, ids bigint[], upto bigint, per_job int, job_limit int
) returns int
language plpgsql as $$
declare
  most int := cardinality(f.rest) + job_limit * per_job;
  made record;
begin
  -- The next step looks again at the devices beyond a full step.
  if upto is not null and cardinality(ids) > most then
    ids := ids[1 : most];
    upto := ids[most];
  end if;
  select * into made
  from pushq.make_share_jobs(f, ids, f.send_by, per_job, upto is null, f.uncertain_to is not null);
  update pushq.fan_out o
  set made = o.made + made.taken,
      held_out = o.held_out + made.held,
      message_day = pushq.today(),
      last_device_id = f.last_device_id,
      done = upto is null,
      done_at = case when upto is null then clock_timestamp() end,
      cursor_device_id = coalesce(upto, o.cursor_device_id),
      rest = made.rest
  where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id;
  return made.jobs;
end $$;

-- The shares of a campaign of one queue, the payload first, with the outcomes of their recipients, also in jobs that
-- have not ended (`campaign_progress`). The holdout has only its number of devices, as `total`. No row for a campaign
-- without shares.
create or replace function pushq.show_shares(queue text, root bigint)
returns table (share text, fraction float8, total bigint, waiting bigint, delivered bigint, rejected bigint,
               failed bigint, suppressed bigint, expired bigint, cancelled bigint, unknown bigint, retried bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(queue);
begin
  return query
  select s.name, s.fraction::float8, s.made,
         s.made - (a.delivered + a.rejected + a.failed + a.suppressed + a.expired + a.cancelled + a.unknown),
         a.delivered, a.rejected, a.failed, a.suppressed, a.expired, a.cancelled, a.unknown, t.retried
  from pushq.campaign_share s
  cross join lateral (
    select coalesce(sum(p.delivered), 0)::bigint as delivered, coalesce(sum(p.rejected), 0)::bigint as rejected,
           coalesce(sum(p.failed), 0)::bigint as failed, coalesce(sum(p.suppressed), 0)::bigint as suppressed,
           coalesce(sum(p.expired), 0)::bigint as expired, coalesce(sum(p.cancelled), 0)::bigint as cancelled,
           coalesce(sum(p.unknown), 0)::bigint as unknown, coalesce(sum(p.retried), 0)::bigint as retried
    from pushq.campaign_tally p
    where p.queue_id = s.queue_id and p.campaign_id = s.campaign_id and p.message_id = s.message_id) t
  cross join lateral (
    select t.delivered + coalesce(sum(o.delivered), 0)::bigint as delivered,
           t.rejected + coalesce(sum(o.rejected), 0)::bigint as rejected,
           t.failed + coalesce(sum(o.failed), 0)::bigint as failed,
           t.suppressed + coalesce(sum(o.suppressed), 0)::bigint as suppressed,
           t.expired + coalesce(sum(o.expired), 0)::bigint as expired,
           t.cancelled + coalesce(sum(o.cancelled), 0)::bigint as cancelled,
           t.unknown + coalesce(sum(o.unknown), 0)::bigint as unknown
    from (
      select j.outcomes
      from pushq.job j
      where j.queue_id = s.queue_id and j.root_id = s.campaign_id and j.message_id = s.message_id
        and j.outcomes is not null
      union all
      select l.outcomes
      from pushq.lease l
      where l.queue_id = s.queue_id and l.root_id = s.campaign_id and l.message_id = s.message_id) b
    cross join lateral pushq.outcome_counts(b.outcomes) o) a
  where s.queue_id = ids[1] and s.campaign_id = root
  order by s.place;
  return query
  select 'holdout',
         (select 1 - sum(s.fraction)
          from pushq.campaign_share s
          where s.queue_id = ids[1] and s.campaign_id = root)::float8, f.held_out, 0::bigint, 0::bigint, 0::bigint,
         0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint
  from pushq.fan_out f
  where f.queue_id = ids[1] and f.campaign_id = root and (f.shares #>> '{bounds,0}')::bigint > 0;
end $$;
