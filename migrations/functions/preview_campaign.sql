-- A preview of a campaign, as if it were started now. It writes nothing.

-- The arguments are those of `pushq.start_campaign`, and `tokens` of its list; without `tokens` and `filter`, the
-- campaign is for all active devices. `recipients` does not include devices of the holdout, nor those that a local time
-- leaves out (`left_out`). `problems` say in words why nothing, or not everything, would be sent now, and what the
-- start would refuse. `rate` is what the queue's limits allow, in pushes per second; `speed` is what its last campaign
-- reached. `in_shares` counts the devices in the holdout, in the share of the payload and in those of the variants;
-- null for a campaign without shares. `would_expire` is how many recipients could not be sent to in the campaign's time
-- at its own rate or at that of the queue's limits. `done_at` is when all others would have been sent to, at `speed` at
-- most. Both are null if no rate or speed is known. `cap` is the queue's frequency cap, in words, if it applies to the
-- campaign, and `capped` is how many recipients it would hold back now (`pushq.count_capped`).
--
-- The payload is json, not of a polymorphic type: a router has one function for each type of such a payload, and
-- PostgreSQL could not choose one of them in a call without a payload. Without a payload, `push_type` may be
-- 'liveactivity-start', and `activity_type` is the type that is started.
create or replace function pushq.preview_campaign(
  queue          text,
  key            text,
  push_type      text        default 'alert',
  tokens         text[]      default null,
  filter         text        default null,
  activity_type  text        default null,
  payload        json        default null,
  priority       int         default null,
  expiration     bigint      default null,
  collapse_id    text        default null,
  start_at       timestamptz default now(),
  send_by        timestamptz default null,
  max_rate       float8      default null,
  stop_at_errors float8      default null,
  local_time     text        default null,
  if_passed      text        default null,
  catch_up       interval    default null,
  default_zone   text        default null,
  variants       json        default null,
  holdout        float8      default null,
  quiet_hours    text        default null,
  urgent         boolean     default false,
  out recipients bigint, out inactive bigint, out unknown bigint, out topic text, out credential text,
  out credential_expires_at timestamptz, out rate float8, out speed float8, out problems text[], out left_out bigint,
  out in_shares bigint[], out would_expire bigint, out done_at timestamptz, out cap text, out capped bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this    int    := (pushq.enter(queue, sends => false)).q;
  clock   jsonb  := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  shares  record := pushq.read_shares(variants, holdout);
  aim     text   := pushq.audience_kind(push_type, pushq.payload_json(payload));
  listed  bytea[] := pushq.tokens(tokens);
  tree    jsonb;
  without text[] := '{}';                                 -- zones that get nothing; '': devices without a zone
  begins  timestamptz := coalesce(start_at, now());
  q       pushq.queue;
  c       pushq.credential;
  earlier pushq.campaign;
  name    pushq.queue_name;
  is_checked bool := false;                               -- whether the start would accept the options
  held    bigint;                                         -- the devices of the holdout
  limits  float8[];                                       -- the rates that apply, and the last campaign's speed
  quiet   record := pushq.quiet_hours_for(this, pushq.read_quiet_hours(quiet_hours), push_type, urgent);
  due     record;
begin
  problems := '{}';
  left_out := 0;
  select * into q from pushq.queue x where x.id = this;
  select * into name from pushq.queue_name n where n.queue_id = q.id;
  select * into c from pushq.credential x where x.tenant_id = q.tenant_id and x.id = q.credential_id;
  topic := name.app;
  if clock is not null then
    begins := pushq.clock_start(clock, begins);
    clock := clock || jsonb_build_object('start', begins);
  end if;

  -- The audience, as `pushq.fan_out_step` finds it. An inactive device on a list is a recipient, too: suppressed.
  if tokens is not null and filter is not null then
    raise exception using errcode = 'PQ400', message = 'a campaign has a list of tokens or a filter, not both';
  end if;
  activity_type := coalesce(activity_type, pushq.started_type(push_type, payload));
  tree := pushq.with_audiences(
    case when tokens is null then pushq.tree_of_starts(filter, activity_type) end, q.id);
  if tree is not null then
    select n.recipients, n.inactive, 0 into recipients, inactive, unknown
    from pushq.count_filtered(q.id, aim, tree, now()) n;
  elsif tokens is null then
    select count(*) filter (where d.active), count(*) filter (where not d.active), 0
    into recipients, inactive, unknown
    from pushq.device d
    where d.queue_id = q.id and coalesce(d.kind, 'alert') = aim;
  else
    select count(*), count(*) filter (where not d.active), count(*) filter (where d.id is null)
    into recipients, inactive, unknown
    from (select distinct t from unnest(listed) t) t
    left join pushq.device d on d.queue_id = q.id and d.token = t.t;
  end if;
  if clock is not null then
    select coalesce(sum(z.recipients), 0), coalesce(array_agg(coalesce(z.time_zone, '')), '{}')
    into left_out, without
    from pushq.count_zones(q.id, aim, tree, listed) z
    where pushq.wave_of(clock, z.time_zone) is null;
    recipients := recipients - left_out;
  end if;
  if shares.content is not null and key is not null then
    in_shares := pushq.count_shares(
      q.id, aim, tree, listed, without, jsonb_build_object('key', key, 'bounds', shares.bounds));
  end if;
  held := coalesce(in_shares[1], round(recipients * pushq.held_out(shares)));
  recipients := recipients - held;
  if recipients = 0 then
    problems := problems || ('the campaign would reach nobody: ' || case
      when held > 0 then format('all %s devices are in the holdout', held)
      when left_out > 0 then format('the local time leaves out all %s devices', left_out)
      when tokens is not null then 'there are no tokens'
      else pushq.why_nobody_matches(q.id, aim, tree) end);
  end if;

  select * into earlier from pushq.campaign k where k.queue_id = q.id and k.key = preview_campaign.key;
  if found then
    problems := problems || format('key “%s” belongs to a campaign of %s: nothing would be sent again', key,
                                   earlier.created_at::timestamptz(0));
  else
    begin
      perform pushq.check_campaign_key(key);
      perform pushq.check_campaign(
        q.id, payload, push_type, priority, expiration, collapse_id, begins, send_by, max_rate, stop_at_errors, clock,
        shares);
      if clock is not null then
        perform pushq.check_waves(q.id, clock, pushq.given_end(send_by, expiration), aim, tree, listed);
      end if;
      perform pushq.check_campaign_quota(q.id, payload, shares);
      is_checked := true;
    exception when sqlstate 'PQ400' or sqlstate 'PQ507' then
      problems := problems || sqlerrm;
    end;
  end if;
  credential := c.name;
  credential_expires_at := c.not_after;
  problems := problems || pushq.credential_problems(q);
  if q.paused_at is not null then
    problems := problems || format('the queue is paused: %s', q.paused_reason);
  end if;
  if name.suspended_at is not null then
    problems := problems || format('tenant “%s” is suspended', name.tenant);
  end if;

  select min(r.rate) into rate
  from pushq.rate_limit r
  where r.tenant_id = q.tenant_id and r.queue_id in (0, q.id) and r.campaign_id = 0;
  speed := pushq.last_speed(q.id);
  limits := array[least(rate, max_rate), least(rate, max_rate, speed)];
  if limits[2] is not null and is_checked then
    due := pushq.times_due(
      (recipients - case when tokens is null then 0 else inactive * (1 - pushq.held_out(shares)) end)::bigint,
      begins, send_by, expiration, clock, quiet,
      case when clock is not null or quiet.hours is not null then (
        select jsonb_agg(jsonb_build_object(
          'zone', z.time_zone, 'recipients', (z.recipients * (1 - pushq.held_out(shares)))::bigint))
        from pushq.count_zones(q.id, aim, tree, pushq.active_tokens(q.id, listed)) z) end);
    would_expire := (pushq.sent_at_rate(limits[1], due.dues, due.ends, due.counts)).late;
    done_at := (pushq.sent_at_rate(limits[2], due.dues, due.ends, due.counts)).done_at;
  end if;
  select h.cap, h.devices
  into cap, capped
  from pushq.count_capped(
    q.id, push_type, urgent, tree, listed, without,
    case when key is not null and pushq.held_out(shares) > 0
         then jsonb_build_object('key', key, 'bounds', shares.bounds) end) h;
end $$;

-- The speed, in pushes a second, of a queue's last campaign that was sent as fast as possible, to more than 1,000
-- recipients of whom most were sent to. Null if none of its last 20 campaigns qualifies. These do not: a campaign at a
-- local time, which is not sent in one go; a campaign with its own rate, which has its own lane; a campaign that was
-- paused, or whose queue or tenant was stopped meanwhile; and, with quiet hours, any campaign, because its last
-- recipients may have waited for their end. A campaign has ended here with the last of its original jobs: a retry comes
-- minutes later, and one by hand (`pushq.retry_failed`) perhaps days later.
create or replace function pushq.last_speed(q int) returns float8
language plpgsql stable as $$
begin
  return (
    select x.total / extract(epoch from ended.at - began.at)
    from (
      select *
      from pushq.campaign_progress x
      where x.queue_id = q
      order by x.campaign_id desc
      limit 20) x
    join pushq.fan_out f on f.queue_id = q and f.campaign_id = x.campaign_id
    join pushq.campaign k on k.queue_id = q and k.id = x.campaign_id
    join pushq.queue_name n on n.queue_id = q
    left join pushq.quiet_hours h on h.queue_id = q
    -- The campaign may have been started with a time that had passed.
    cross join lateral (select greatest(f.start_at, k.created_at) as at) began
    cross join lateral (
      select max(r.ended_at) as at
      from pushq.result r
      where r.queue_id = q and r.root_id = x.campaign_id
        -- `offset 0` makes it one look-up by the primary key for each result, whatever the statistics say.
        and exists (
          select
          from pushq.body b
          where b.day = r.body_day and b.queue_id = r.queue_id and b.job_id = r.job_id and b.slice = 0
          offset 0)) ended
    where x.finished and x.total > 1000 and x.cancelled_at is null
      and 2 * (x.delivered + x.rejected + x.failed + x.unknown) > x.total
      and f.clock is null and f.lane <= 2 and k.paused_at is null and k.forgiven_at is null
      and coalesce(k.quiet_hours, h.hours, 'none') = 'none' and ended.at > began.at
      and not exists (
        select
        from pushq.audit a
        where a.tenant = n.tenant and a.changed_at between began.at and ended.at
          and (a.object = 'queue' and a.name = n.name and a.changes ? 'paused_at'
               or a.object = 'tenant' and a.changes ? 'suspended_at'))
    order by x.campaign_id desc
    limit 1);
end $$;

-- Why a campaign's audience has no device, in words, and with a suggestion. `tree` is that of its filter; null without
-- one. The most likely reason is a name that no device has.
create or replace function pushq.why_nobody_matches(q int, aim text, tree jsonb) returns text
language plpgsql stable as $$
declare
  asked record;
begin
  for asked in
    select distinct l ->> 'field' as field, l ->> 'name' as name, l -> 'values' as tags
    from jsonb_path_query(tree, '$.** ? (@.field == "attribute" || @.field == "tag")') l
    order by field, name
  loop
    if asked.field = 'attribute' then
      continue when exists (select from pushq.profile p where p.queue_id = q and p.attributes ? asked.name);
      return format('no device has an attribute “%s”%s', asked.name, pushq.suggestion(asked.name, array(
        -- A suggestion needs only some of the devices.
        select distinct k
        from (select p.attributes from pushq.profile p where p.queue_id = q limit 10000) p
        cross join lateral jsonb_object_keys(p.attributes) k)));
    elsif asked.tags <> '[]' then
      continue when exists (
        select from pushq.profile p
        where p.queue_id = q and p.tags && array(select jsonb_array_elements_text(asked.tags)));
      return format('no device has the tag “%s”%s', asked.tags ->> 0, pushq.suggestion(asked.tags ->> 0, array(
        select distinct tag
        from (select p.tags from pushq.profile p where p.queue_id = q limit 10000) p
        cross join lateral unnest(p.tags) tag)));
    end if;
  end loop;
  return format(case when tree is null then 'the queue has no active device of kind %s'
                     else 'no active device of kind %s matches the filter' end, aim);
end $$;

-- What the recipients of a campaign would get if it were started now with this message: a row for each of its versions,
-- the one without a language first. `recipients` counts active devices. `lacking` counts those that lack an attribute
-- without a default, and `too_long` those whose payload would be longer than `most` bytes. `sample` is the payload of
-- the first other device, or the payload with all defaults. The audience is as for `pushq.preview_campaign`, without
-- the devices that a local time leaves out. With `variants` or a `holdout`, it counts only the devices in the share
-- `share` under this key. It writes nothing.
create or replace function pushq.preview_message(
  queue text, payload anycompatible, push_type text default 'alert', tokens text[] default null,
  filter text default null, local_time text default null, if_passed text default null, catch_up interval default null,
  default_zone text default null, start_at timestamptz default now(), key text default null,
  variants json default null, holdout float8 default null, share text default 'payload'
)
returns table (language text, recipients bigint, lacking bigint, too_long bigint, longest int, most int, sample text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_nestloop = off set jit = off as $$
#variable_conflict use_column
declare
  q         int  := (pushq.enter(queue, sends => false)).q;
  given     json := pushq.payload_json(payload);
  clock     jsonb := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  shares    record := pushq.read_shares(variants, holdout);
  place     int := array_position(array_prepend('payload', shares.names), share);
  aim       text := pushq.audience_kind(push_type, given);
  listed    bytea[] := pushq.tokens(tokens);
  tree      jsonb;
  left_out  text[] := '{}';                               -- zones that get nothing; '': devices without a zone
  m         record;
  texts     text[];                                       -- the payloads, in the order of the versions
  read      record;                                       -- one of the payloads, parsed
  literals  text[];
  condition text := 'true';
  lengths   text := '';                                   -- SQL: the lengths of the attributes' values
  cases     text := '';                                   -- SQL: the length of the payload in each version
  found     record;
  raised_by int;                                          -- by how much it raises badges; null: not at all
begin
  if tokens is not null and filter is not null then
    raise exception using errcode = 'PQ400', message = 'a campaign has a list of tokens or a filter, not both';
  end if;
  if shares.content is not null and (key is null or place is null) then
    raise exception using errcode = 'PQ400',
      message = case when key is null then 'which devices are in a share depends on the key of the campaign'
                     else format('the campaign has no share “%s”', pushq.shown(share, 70)) end,
      hint = 'give its key, and the name of a variant or payload';
  end if;
  -- A message that the start refuses gets no sample. The campaign's other settings do not matter here.
  perform pushq.check_campaign_message(q, given, push_type, null, null, null);
  select * into m from pushq.read_message(given);
  texts := array[m.payload::text] || m.translations;
  select case when u.gateway = 'binary' then 2048 when push_type = 'voip' then 5120 else 4096 end into most
  from pushq.queue u
  where u.id = q;

  -- As in filter_sql.sql, the SQL consists of fixed pieces and numbers; all text from users is in the parameter `$1`.
  literals := coalesce(m.placeholders, '{}');
  for n in 1 .. cardinality(literals) loop
    lengths := lengths || format(
      'nullif(octet_length((p.attributes -> $1[%1$s])::text)
              - case when jsonb_typeof(p.attributes -> $1[%1$s]) = ''string'' then 2 else 0 end, 0) as a%1$s, ', n);
  end loop;
  for n in 1 .. cardinality(texts) loop
    select * into read from pushq.read_placeholders(texts[n]);
    cases := cases || format(
        'when %s then %s', n - 1,
        octet_length(array_to_string(read.literals, ''))
        + pushq.sent_bytes(read.plain::json) - octet_length(read.plain))
      || coalesce((
        select string_agg(format(' + coalesce(a%s, %s)', array_position(literals, u.name),
                                 coalesce(octet_length(u.fallback)::text, 'null')), '')
        from unnest(read.asked, read.fallbacks) u(name, fallback)), '') || ' ';
  end loop;
  tree := pushq.with_audiences(
    case when tokens is null then pushq.tree_of_starts(filter, pushq.started_type(push_type, given)) end, q);
  if tree is not null then
    select s.literals, s.condition into literals, condition
    from pushq.filter_condition_sql(tree, now(), literals) s;
  end if;
  if clock is not null then
    clock := clock || jsonb_build_object('start', pushq.clock_start(clock, coalesce(start_at, now())));
    left_out := array(
      select coalesce(z.time_zone, '')
      from pushq.count_zones(q, aim, tree, listed) z
      where pushq.wave_of(clock, z.time_zone) is null);
  end if;

  for found in execute format(
    $sql$
    with payload as (
      select d.id, a.version, case a.version %s end as bytes
      from %s
      left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
      cross join lateral (select %s pushq.version_for(p.locale, $4) as version) a
      where %s and %s and coalesce(p.time_zone, '') <> all ($8)),
    counted as (
      select version, count(*) as recipients, count(*) filter (where bytes is null) as lacking,
             count(*) filter (where bytes > $6) as too_long, max(bytes) as longest,
             min(id) filter (where bytes <= $6) as device
      from %s
      group by version)
    select v.version, coalesce(c.recipients, 0) as recipients, coalesce(c.lacking, 0) as lacking,
           coalesce(c.too_long, 0) as too_long, c.longest,
           (select p.attributes from pushq.profile p where p.queue_id = $2 and p.device_id = c.device) as attributes,
           (select b.count from pushq.badge b where b.queue_id = $2 and b.device_id = c.device) as badge
    from generate_series(0, cardinality($7) - 1) v(version)
    left join counted c on c.version = v.version
    order by v.version
    $sql$,
    cases,
    case when tokens is null then 'pushq.device d'
         else '(select distinct t from unnest($5) t) t '
              'left join pushq.device d on d.queue_id = $2 and d.token = t.t' end,
    lengths,
    case when tokens is null then 'd.queue_id = $2 and d.active and coalesce(d.kind, ''alert'') = $3'
         else 'd.active is not false' end,
    condition,
    case when shares.content is null then 'payload'
         else '(select id, version, bytes
                from payload
                where id in (
                  select s.device_id
                  from pushq.shares_of($9, array(select p.id from payload p where p.id is not null)) s
                  where s.share = $10)
                union all
                select null, version, bytes
                from (select *, row_number() over () as n, count(*) over () as total from payload where id is null) f
                where pushq.dealt_share(n, total, $9) = $10) shared' end)
    using literals, q, aim, m.languages, listed, most, texts, left_out,
          jsonb_build_object('key', key, 'bounds', shares.bounds), place
  loop
    select * into read from pushq.read_placeholders(texts[found.version + 1]);
    language := m.languages[found.version];
    recipients := found.recipients;
    lacking := found.lacking;
    too_long := found.too_long;
    longest := found.longest;
    sample := coalesce(pushq.join_payload(read.literals, read.asked, read.fallbacks, found.attributes), read.plain);
    raised_by := pushq.badge_increment(read.plain::json, push_type);
    if raised_by is not null then
      sample := pushq.with_badge(sample, least(coalesce(found.badge, 0) + raised_by, 99999));
    end if;
    return next;
  end loop;
end $$;
