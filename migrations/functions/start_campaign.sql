-- Starting a campaign: for all devices, for a list, and for an array of tokens.

-- The earlier campaign with this key, or null. `digest` is that of the content: the same key with other content is an
-- error, and so is the key of a cancelled campaign, which does not start again. With null, the content is not compared.
create or replace function pushq.earlier_campaign(q int, key text, digest bytea) returns bigint
language plpgsql as $$
declare
  known pushq.campaign;
begin
  select * into known from pushq.campaign c where c.queue_id = q and c.key = $2;
  if known.digest <> $3 then
    raise exception using errcode = 'PQ409',
      message = format('key “%s” was used for another campaign', pushq.shown(key, 200)),
      hint = 'to repeat the call, leave its content unchanged; otherwise use a new key';
  elsif known.cancelled_at is not null then
    raise exception using errcode = 'PQ409', message = format('campaign “%s” was cancelled', pushq.shown(key, 200)),
      hint = 'start another one under a new key';
  end if;
  return known.id;
end $$;

-- Refuses an invalid key of a campaign.
create or replace function pushq.check_campaign_key(key text) returns void
language plpgsql stable as $$
begin
  if coalesce(key, '') = '' then
    raise exception using errcode = 'PQ400', message = 'a campaign needs a key',
      hint = 'give it a unique name, such as spring-sale';
  end if;
  perform pushq.check_key(key);
end $$;

-- Refuses a campaign that cannot be started, whatever the quotas are, before anything of it is written.
-- `pushq.preview_campaign` makes the same checks. `start_at` is when its fan-out begins. Without a `payload`, only the
-- arguments besides the message are checked.
create or replace function pushq.check_campaign(
  q int, payload json, push_type text, priority int, expiration bigint, collapse_id text, start_at timestamptz,
  send_by timestamptz, max_rate float8, stop_at_errors float8, clock jsonb, shares record
) returns void
language plpgsql as $$
declare
  problem text;
begin
  perform pushq.check_times(start_at, 'start_at', send_by, expiration);
  perform pushq.check_clock(clock, start_at);
  perform pushq.check_max_rate(max_rate);
  -- The column is narrower than the argument.
  if not coalesce(stop_at_errors = 0 or stop_at_errors between 0.000000001 and 0.999999, true) then
    raise exception using errcode = 'PQ400',
      message = format('stop_at_errors %s is not a share of the answers', stop_at_errors),
      hint = 'it is 0, or 0.000000001 to 0.999999, such as 0.05';
  end if;
  if payload is null then
    problem := pushq.header_problem(push_type, priority, expiration, collapse_id);
    if problem is not null then
      raise exception using errcode = 'PQ400', message = problem;
    end if;
    return;
  elsif expiration = 0 and pushq.message_kind(push_type, payload) = 'liveactivity-start' then
    raise exception using errcode = 'PQ400',
      message = 'expiration 0 would lose the starts of Live Activities that APNs cannot deliver at once',
      hint = 'use seconds since 1970 that lie ahead, or none';
  end if;
  perform pushq.check_campaign_message(q, payload, push_type, priority, expiration, collapse_id);
  perform pushq.check_shares(q, shares, payload, push_type, priority, expiration, collapse_id);
end $$;

-- Refuses a campaign that the quotas of its tenant do not allow. This is the last check: a schedule is not refused for
-- it, because a schedule adds no campaign now.
create or replace function pushq.check_campaign_quota(q int, payload json, shares record) returns void
language plpgsql as $$
begin
  perform pushq.check_quota(
    q, bytes => octet_length(payload::text)
                + (select coalesce(sum(octet_length(p::text)), 0) from unnest(shares.payloads) p),
    campaigns => 1);
end $$;

-- Creates a campaign's rows, or finds the campaign with that key. `list_id` is null for all active devices, or for
-- those that match a filter. `is_run`: for a run of a schedule, which is started for the devices that it can reach.
create or replace function pushq.new_campaign(
  q int, key text, digest bytea, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, urgent boolean, start_at timestamptz, send_by timestamptz, list_id bigint,
  max_rate float8, stop_at_errors float8, shares record, filter text default null, filter_tree jsonb default null,
  clock jsonb default null, quiet_hours text default null, is_run boolean default false
) returns bigint
language plpgsql as $$
declare
  root    bigint := nextval('pushq.id');
  earlier bigint;
  message bigint;
begin
  perform pushq.check_campaign_key(key);
  earlier := pushq.earlier_campaign(q, key, digest);
  if earlier is not null then
    return earlier;
  end if;
  if at_most_once then
    perform pushq.warn_of_repetition();
  end if;
  perform pushq.warn_of_quiet_hours(q, quiet_hours, push_type, urgent);
  start_at := coalesce(start_at, now());
  if clock is not null then
    start_at := pushq.clock_start(clock, start_at);
    clock := clock || jsonb_build_object('start', start_at)
      || case when send_by is null then '{"within": "24:00:00"}' else '{}' end::jsonb;
  end if;
  perform pushq.check_campaign(
    q, payload, push_type, priority, expiration, collapse_id, start_at, send_by, max_rate, stop_at_errors, clock,
    shares);
  if clock is not null and not is_run then
    perform pushq.check_waves(
      q, clock, pushq.given_end(send_by, expiration),
      pushq.message_kind(push_type, (pushq.read_message(payload)).plain[1]::json),
      pushq.with_audiences(filter_tree, q), list => list_id);
  end if;
  -- Adding the schedule already warned that its rate is too low; nobody would read a warning from a run.
  if not is_run then
    perform pushq.warn_of_pace(
      q, max_rate, start_at, send_by, expiration,
      pushq.message_kind(push_type, (pushq.read_message(payload)).plain[1]::json),
      pushq.quiet_hours_for(q, quiet_hours, push_type, urgent), pushq.with_audiences(filter_tree, q), list_id, clock,
      pushq.held_out(shares));
  end if;
  perform pushq.check_campaign_quota(q, payload, shares);
  message := pushq.new_campaign_message(
    q, root, payload, push_type, priority, expiration, collapse_id, at_most_once, start_at);
  insert into pushq.campaign (queue_id, id, key, digest, message_id, stop_at_errors, filter, filter_tree, quiet_hours)
  values (q, root, new_campaign.key, new_campaign.digest, message, new_campaign.stop_at_errors, new_campaign.filter,
          pushq.with_audiences(new_campaign.filter_tree, q), new_campaign.quiet_hours)
  on conflict on constraint campaign_key_once do nothing;
  if not found then
    -- Another transaction started the campaign at the same moment.
    delete from pushq.message m where m.day = pushq.today() and m.queue_id = q and m.id = message;
    return pushq.earlier_campaign(q, key, digest);
  end if;
  insert into pushq.campaign_tally (queue_id, campaign_id, message_id) values (q, root, message);
  insert into pushq.fan_out (queue_id, campaign_id, message_id, list_id, is_for_users, start_at, send_by, at_most_once,
                             lane, last_device_id, clock)
  select q, root, message, new_campaign.list_id,
         exists (
           select from pushq.list l where l.queue_id = q and l.id = new_campaign.list_id and l.user_count is not null),
         -- A start that has passed is now: the filter's times count back from it, and campaigns take turns by it.
         greatest(new_campaign.start_at, now()),
         -- The last wave is due about two days after the start.
         coalesce(new_campaign.send_by,
                  greatest(new_campaign.start_at, now())
                    + interval '24 hours' * case when clock is null then 1 else 4 end),
         coalesce(new_campaign.at_most_once, false),
         case when urgent then 0 else 2 end,
         -- A scheduled campaign goes to the devices that exist when it starts.
         case when new_campaign.start_at <= now()
              then coalesce((select id from pushq.device where queue_id = q order by id desc limit 1), 0) end,
         new_campaign.clock;
  if shares.content is not null then
    perform pushq.add_shares(
      q, root, key, shares, message, push_type, priority, expiration, collapse_id, at_most_once, start_at);
  end if;
  if max_rate is not null then
    perform pushq.limit_campaign(q, root, max_rate);
  end if;
  perform pushq.wake(q);
  return root;
end $$;

-- Identifies the content of a campaign for a list, independently of the form in which the list was given.
create or replace function pushq.list_campaign_digest(
  payload json, token_count bigint, tokens bit(256), push_type text, priority int, collapse_id text,
  at_most_once boolean, urgent boolean, clock jsonb, shares text, quiet_hours text
) returns bytea
language sql stable as $$
  select sha256(convert_to(
    row(pushq.content($1), $2, $3, $4, $5, $6, coalesce($7, false), coalesce($8, false), $9, $10, $11)::text,
    'UTF8'))
$$;

-- Starts a campaign to all active devices of a queue, or to those that match a filter, once: a repeated call under the
-- same key returns the id of the first one, and the same key with other content is an error. The same filter may be
-- written differently. The arguments after the payload are also the options of a schedule (`pushq.schedule_options`),
-- except `is_run`, which is as for `pushq.new_campaign`.
create or replace function pushq.start_filtered_campaign(
  q            int,
  key          text,
  payload      json,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null,
  max_rate     float8      default null,
  stop_at_errors float8    default null,
  filter       text        default null,
  local_time   text        default null,
  if_passed    text        default null,
  catch_up     interval    default null,
  default_zone text        default null,
  variants     json        default null,
  holdout      float8      default null,
  quiet_hours  text        default null,
  is_run       boolean     default false
) returns bigint
language plpgsql as $$
declare
  starts text   := pushq.started_type(push_type, payload);
  tree   jsonb  := pushq.tree_of_starts(filter, starts);
  clock  jsonb  := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  shares record := pushq.read_shares(variants, holdout);
  quiet  text   := pushq.read_quiet_hours(quiet_hours);
begin
  return pushq.new_campaign(
    q, key,
    sha256(convert_to(
      row(pushq.content(payload), push_type, priority, collapse_id, coalesce(at_most_once, false),
          coalesce(urgent, false), tree, clock, shares.content, quiet)::text,
      'UTF8')),
    payload, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by, null,
    max_rate, stop_at_errors, shares, pushq.filter_of_starts(filter, starts), tree, clock, quiet, is_run);
end $$;

-- The same for producers.
create or replace function pushq.start_campaign(
  queue        text,
  key          text,
  payload      anycompatible,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null,
  max_rate     float8      default null,
  stop_at_errors float8    default null,
  filter       text        default null,
  local_time   text        default null,
  if_passed    text        default null,
  catch_up     interval    default null,
  default_zone text        default null,
  variants     json        default null,
  holdout      float8      default null,
  quiet_hours  text        default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q    int  := (pushq.enter(queue, sends => true)).q;
  body json := pushq.payload_json(payload);
begin
  return pushq.start_filtered_campaign(
    q, key, body, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by, max_rate,
    stop_at_errors, filter, local_time, if_passed, catch_up, default_zone, variants, holdout, quiet_hours);
end $$;

-- Starts a campaign of queue `q`, whose name is `queue`, for the tokens or users of a list. The list accepts no more
-- parts.
create or replace function pushq.start_list_campaign(
  q int, queue text, key text, payload json, list bigint, push_type text, priority int, expiration bigint,
  collapse_id text, at_most_once boolean, urgent boolean, start_at timestamptz, send_by timestamptz,
  max_rate float8, stop_at_errors float8, clock jsonb, shares record, quiet_hours text
) returns bigint
language plpgsql as $$
declare
  known   pushq.list;
  aim     text := pushq.message_kind(push_type, payload);
  digest  bytea;
  started bigint;
begin
  select * into known from pushq.list l where l.queue_id = q and l.id = list for no key update;
  if not found then
    -- Upkeep deletes a list whose campaign needs it no more. What the list contained is then not known any more, so
    -- the content is not compared.
    perform
    from pushq.campaign c
    join pushq.fan_out f on f.queue_id = c.queue_id and f.campaign_id = c.id
    where c.queue_id = q and c.key = start_list_campaign.key and f.list_id = list;
    if found then
      return pushq.earlier_campaign(q, key, null);
    end if;
  end if;
  if known.id is null or known.abandoned then
    raise exception using errcode = 'PQ404',
      message = format('queue “%s” has no list %s', queue, coalesce(list::text, 'null')),
      hint = 'a list is deleted a day after its last part: load it again';
  elsif coalesce(known.user_count, known.token_count) = 0 then
    raise exception using errcode = 'PQ400',
      message = case when known.user_count is null then 'the list of tokens is empty'
                     else 'the list of users is empty' end;
  elsif coalesce(known.kind, 'alert') <> aim then
    raise exception using errcode = 'PQ400',
      message = format('list %s was begun for push type %s, not for %s', list, coalesce(known.kind, 'alert'), aim),
      hint = format('begin another list: pushq.new_list(queue, push_type => ''%s'')', aim);
  end if;
  if known.user_count is not null and known.campaign_id is null and aim = 'liveactivity-start' then
    perform pushq.keep_starts(q, list, pushq.started_type(push_type, payload));
  end if;
  digest := pushq.list_campaign_digest(
    payload, coalesce(known.user_count, known.token_count), known.digest, push_type, priority,
    collapse_id, at_most_once, urgent, clock,
    shares.content, quiet_hours);
  if known.campaign_id is null then
    started := pushq.new_campaign(
      q, key, digest, payload, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by,
      list, max_rate, stop_at_errors, shares, clock => clock, quiet_hours => quiet_hours);
    update pushq.list l set campaign_id = started where l.queue_id = q and l.id = list;
  else
    started := pushq.earlier_campaign(q, key, digest);
    if started is distinct from known.campaign_id then
      raise exception using errcode = 'PQ409', message = format('list %s was already used for another campaign', list),
        hint = 'begin another list: pushq.new_list';
    end if;
  end if;
  return started;
end $$;

-- Starts a campaign for the tokens or users of a list, once: a repeated call under the same key returns the id of the
-- first one, whichever list has the same tokens or users now, and the same key with other content is an error. The list
-- accepts no more parts.
create or replace function pushq.start_campaign(
  queue        text,
  key          text,
  payload      anycompatible,
  list         bigint,
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null,
  max_rate     float8      default null,
  stop_at_errors float8    default null,
  local_time   text        default null,
  if_passed    text        default null,
  catch_up     interval    default null,
  default_zone text        default null,
  variants     json        default null,
  holdout      float8      default null,
  quiet_hours  text        default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q     int   := (pushq.enter(queue, sends => true)).q;
  body  json  := pushq.payload_json(payload);
  clock jsonb := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
begin
  return pushq.start_list_campaign(
    q, queue, key, body, list, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by,
    max_rate, stop_at_errors, clock, pushq.read_shares(variants, holdout), pushq.read_quiet_hours(quiet_hours));
end $$;

-- The campaign that was started under this key for the same list, or null if there is none. A caller asks this before
-- it loads a list again only to compare it, for which its quota may have no room. `members` is the number of distinct
-- tokens or users, and `digest` the xor of their SHA-256 hashes, as in `pushq.list`. The same key with other content is
-- an error.
create or replace function pushq.earlier_list_campaign(
  queue        text,
  key          text,
  payload      anycompatible,
  members      bigint,
  digest       bit,
  push_type    text     default 'alert',
  priority     int      default null,
  collapse_id  text     default null,
  at_most_once boolean  default false,
  urgent       boolean  default false,
  local_time   text     default null,
  if_passed    text     default null,
  catch_up     interval default null,
  default_zone text     default null,
  variants     json     default null,
  holdout      float8   default null,
  quiet_hours  text     default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => true)).q;
begin
  perform pushq.check_campaign_key(key);
  return pushq.earlier_campaign(q, key, pushq.list_campaign_digest(
    pushq.payload_json(payload), members, digest::bit(256), push_type, priority, collapse_id, at_most_once, urgent,
    pushq.read_clock(local_time, if_passed, catch_up, default_zone), (pushq.read_shares(variants, holdout)).content,
    pushq.read_quiet_hours(quiet_hours)));
end $$;

-- The same for tokens that fit into one statement, all in the caller's transaction.
create or replace function pushq.start_campaign(
  queue        text,
  key          text,
  payload      anycompatible,
  tokens       text[],
  push_type    text        default 'alert',
  priority     int         default null,
  expiration   bigint      default null,
  collapse_id  text        default null,
  at_most_once boolean     default false,
  urgent       boolean     default false,
  start_at     timestamptz default now(),
  send_by      timestamptz default null,
  max_rate     float8      default null,
  stop_at_errors float8    default null,
  local_time   text        default null,
  if_passed    text        default null,
  catch_up     interval    default null,
  default_zone text        default null,
  variants     json        default null,
  holdout      float8      default null,
  quiet_hours  text        default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  q     int := (pushq.enter(queue, sends => true)).q;
  body  json := pushq.payload_json(payload);
  clock jsonb := pushq.read_clock(local_time, if_passed, catch_up, default_zone);
  bytes bytea[] := pushq.tokens(tokens);
  list  bigint;
  given record;
begin
  if coalesce(cardinality(tokens), 0) = 0 then
    raise exception using errcode = 'PQ400', message = 'the list of tokens is empty';
  end if;
  -- A repetition writes nothing.
  if exists (select from pushq.campaign c where c.queue_id = q and c.key = start_campaign.key) then
    select count(*) as tokens, pushq.set_digest(array_agg(t)) as digest
    into given
    from (select distinct t from unnest(bytes) t) s;
    return pushq.earlier_campaign(q, key, pushq.list_campaign_digest(
      body, given.tokens, given.digest, push_type, priority, collapse_id, at_most_once, urgent, clock,
      (pushq.read_shares(variants, holdout)).content, pushq.read_quiet_hours(quiet_hours)));
  end if;
  list := pushq.make_list(q, case when pushq.message_kind(push_type, body) = 'liveactivity-start'
                                  then 'liveactivity-start' else push_type end);
  perform pushq.add_members(q, queue, list, bytes);
  return pushq.start_list_campaign(
    q, queue, key, body, list, push_type, priority, expiration, collapse_id, at_most_once, urgent, start_at, send_by,
    max_rate, stop_at_errors, clock, pushq.read_shares(variants, holdout), pushq.read_quiet_hours(quiet_hours));
end $$;
