-- Lists of tokens or users for campaigns: they are loaded in parts, and deleted when no campaign needs them any more.

-- Identifies a set of tokens independently of their order: the xor of their SHA-256 hashes. `tokens` has no duplicates.
create or replace function pushq.set_digest(tokens bytea[]) returns bit(256)
language sql immutable as $$
  select coalesce(bit_xor(('x' || encode(sha256(t), 'hex'))::bit(256)), repeat('0', 256)::bit(256)) from unnest($1) t
$$;

-- Creates a list of a queue for a campaign of this push type. The push type decides the kind of unknown tokens; for
-- campaigns that start Live Activities it is 'liveactivity-start'. Returns the list's id.
create or replace function pushq.make_list(q int, push_type text) returns bigint
language plpgsql as $$
declare
  new_id bigint;
begin
  insert into pushq.list (queue_id, kind)
  values (q, nullif(pushq.audience_kind(push_type), 'alert'))
  returning id into new_id;
  return new_id;
end $$;

-- The same for producers. A list without a campaign is deleted a day after its last part was loaded.
create or replace function pushq.new_list(queue text, push_type text default 'alert') returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pushq.make_list((pushq.enter(queue, sends => true)).q, push_type);
end $$;

-- Adds hexadecimal tokens to a list; about ten thousand per call are best. Unknown tokens become devices; an inactive
-- device stays inactive. Tokens that are already on the list are skipped, so that a part can be repeated. Returns the
-- number of tokens added. Calls for one list wait for each other's commit.
create or replace function pushq.add_to_list(queue text, list bigint, tokens text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pushq.add_members((pushq.enter(queue, sends => true)).q, queue, list, pushq.tokens(tokens));
end $$;

-- The same for tokens as bytes. It has another name, because PostgreSQL would take a hexadecimal literal for bytes if
-- the argument could be either.
create or replace function pushq.add_tokens_to_list(queue text, list bigint, tokens bytea[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pushq.read_token(encode(t, 'hex'))
  from unnest(tokens) t
  where t is null or octet_length(t) not between 1 and 100;
  return pushq.add_members((pushq.enter(queue, sends => true)).q, queue, list, tokens);
end $$;

-- Locks a list of queue `q`, whose name is `queue`, before something is added: other callers wait.
create or replace function pushq.open_list(q int, queue text, list bigint) returns pushq.list
language plpgsql as $$
declare
  known pushq.list;
begin
  select * into known from pushq.list l where l.queue_id = q and l.id = list for no key update;
  if not found or known.abandoned then
    raise exception using errcode = 'PQ404',
      message = format('queue “%s” has no list %s', queue, coalesce(list::text, 'null')),
      hint = 'a list is deleted a day after its last part: load it again';
  elsif known.campaign_id is not null then
    raise exception using errcode = 'PQ409', message = format('list %s was already used for a campaign', list),
      hint = 'begin another list: pushq.new_list';
  end if;
  return known;
end $$;

-- Gives up a list without a campaign: no quota counts it any more, and upkeep deletes it. Returns whether the list
-- existed. The call does not count against the quota for calls, so a list can be given up after a call was refused.
create or replace function pushq.abandon_list(queue text, list bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door record := pushq.enter(queue, sends => false, counts => false);
begin
  update pushq.list l set abandoned = true
  where l.queue_id = door.q and l.id = list and l.campaign_id is null and not l.abandoned;
  if not found then
    return false;
  end if;
  if door.has_quota then
    -- Counts again at once, so that the abandoned list does not limit the next call.
    perform pushq.count_usage(k.tenant_id, by_producer => true) from pushq.queue k where k.id = door.q;
  end if;
  return true;
end $$;

-- Adds users to a list, which is then a list of users; about ten thousand per call are best. It adds each user's
-- devices that are active now and whose tokens are of the list's kind. For a list that starts Live Activities, with
-- `activity_type`, it adds only tokens for that type or for no type in particular; the start of the campaign checks the
-- type in any case. Users that are already on the list are skipped, so that a part can be repeated. Returns the number
-- of users added, of their devices, and of users among them without a device.
create or replace function pushq.add_users_to_list(
  queue text, list bigint, users text[], activity_type text default null,
  out added bigint, out devices bigint, out without_device bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  q     int := (pushq.enter(queue, sends => true)).q;
  known pushq.list := pushq.open_list(q, queue, list);
begin
  if known.user_count is null and known.token_count > 0 then
    raise exception using errcode = 'PQ409', message = format('list %s already has tokens', list),
      hint = 'begin another list for users: pushq.new_list';
  end if;
  perform pushq.check_user_keys(users);
  with fresh as materialized (
    insert into pushq.list_user (queue_id, list_id, user_key)
    select q, list, s.u from (select distinct u from unnest(users) u order by u) s
    on conflict do nothing
    returning user_key),
  found as materialized (
    select f.user_key, d.id
    from fresh f
    cross join lateral (
      select d.id
      from pushq.device d
      where d.queue_id = q and d.user_key = f.user_key and d.active
        and coalesce(d.kind, 'alert') = coalesce(known.kind, 'alert')
        and (activity_type is null or not pushq.starts_another(q, d.id, activity_type))
      offset 0) d),
  members as (
    insert into pushq.list_member (queue_id, list_id, device_id)
    select q, list, id from found order by id
    on conflict do nothing
    returning device_id)
  update pushq.list l
  set user_count = coalesce(l.user_count, 0) + n.users, token_count = l.token_count + n.devices,
      digest = l.digest # n.digest, loaded_at = now()
  from (
    select (select count(*) from fresh) as users, (select count(*) from members) as devices,
           (select count(distinct user_key) from found) as reached,
           (select pushq.set_digest(array_agg(convert_to('user ' || user_key, 'UTF8'))) from fresh) as digest) n
  where l.queue_id = q and l.id = list
  returning n.users, n.devices, n.users - n.reached into added, devices, without_device;
  perform pushq.check_quota(q, recipients => greatest(added, devices));
end $$;

-- The hexadecimal tokens of these users' active devices for this push type, to preview a campaign; the number of
-- distinct users, and the number of them without such a device. `activity_type` is the type of Live Activity that the
-- campaign starts.
create or replace function pushq.tokens_of_users(
  queue text, users text[], push_type text default 'alert', activity_type text default null,
  out tokens text[], out given bigint, out without_device bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  q   int  := (pushq.enter(queue, sends => false)).q;
  aim text := pushq.audience_kind(push_type);
begin
  select coalesce(array_agg(encode(d.token, 'hex')) filter (where d.id is not null), '{}'), count(distinct s.u),
         count(distinct s.u) filter (where d.id is null)
  into tokens, given, without_device
  from (select distinct u from unnest(users) u) s
  left join pushq.device d on d.queue_id = q and d.user_key = s.u and d.active and coalesce(d.kind, 'alert') = aim
    and (activity_type is null or not pushq.starts_another(q, d.id, activity_type));
end $$;

-- Adds tokens to a list of queue `q`, whose name is `queue`.
--
-- The plan is made for any queue and any tokens. With a plan for the given ones, a queue whose devices are newer than
-- the table's statistics counted as empty, and each token was compared with each device: 20,000 of 60,000 took more
-- than a minute instead of 0.7 s.
create or replace function pushq.add_members(q int, queue text, list bigint, tokens bytea[]) returns bigint
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  known pushq.list;
  fresh bigint;
  added bigint;
begin
  known := pushq.open_list(q, queue, list);
  if known.user_count is not null then
    raise exception using errcode = 'PQ409', message = format('list %s already has users', list),
      hint = 'begin another list for tokens: pushq.new_list';
  end if;

  -- In ascending order, so that neighbours in the index are written together. Each look-up is a query of its own: for a
  -- queue that is not in the statistics, PostgreSQL would expect one device, and read all of them instead of using the
  -- whole key.
  insert into pushq.device (queue_id, token, kind)
  select q, s.t, known.kind
  from (select distinct t from unnest(tokens) t order by t) s
  where (select d.id from pushq.device d where d.queue_id = q and d.token = s.t) is null
  on conflict do nothing;
  get diagnostics fresh = row_count;

  with given as materialized (
    select d.id
    from (select distinct t from unnest(tokens) t) s
    cross join lateral (select d.id from pushq.device d where d.queue_id = q and d.token = s.t limit 1) d),
  fresh as (
    insert into pushq.list_member (queue_id, list_id, device_id)
    select q, list, id from given order by id
    on conflict do nothing
    returning device_id)
  update pushq.list l
  set token_count = l.token_count + n.tokens, digest = l.digest # n.digest, loaded_at = now()
  from (
    select count(*) as tokens, pushq.set_digest(array_agg(d.token)) as digest
    from fresh f
    cross join lateral (select d.token from pushq.device d where d.queue_id = q and d.id = f.device_id limit 1) d) n
  where l.queue_id = q and l.id = list
  returning n.tokens into added;
  perform pushq.check_quota(q, recipients => added, devices => fresh);
  return added;
end $$;

-- The lists whose members are not needed any more: their campaign has fanned out or has another list, or they have had
-- no campaign for a day. The users of a list are needed until nothing of its campaign can be sent or retried any more:
-- a recipient's device has to belong to one of them when the push is sent.
--
-- Returns up to `step` lists after a key, in the order of their keys: a tenant may have begun millions.
create or replace function pushq.lists_to_forget(after_queue int, after_list bigint, step int)
returns table (queue_id int, list_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
  -- Lists are marked first, so that no caller adds to a list, or starts a campaign with it, when some members are gone
  -- already. A list that a caller is adding to is not abandoned.
  update pushq.list l set abandoned = true
  where l.ctid = any (array(
    select o.ctid
    from pushq.list o
    where (o.queue_id, o.id) > (after_queue, after_list)
      and o.campaign_id is null and not o.abandoned and o.loaded_at < now() - interval '1 day'
      and o.queue_id <> all ((select pushq.queues_under_way())::int[])
    order by o.queue_id, o.id
    limit step
    for no key update skip locked));
  return query
    select l.queue_id, l.id
    from pushq.list l
    where (l.queue_id, l.id) > (after_queue, after_list)
      -- Of a tenant that is being moved, this database knows only a part.
      and l.queue_id <> all ((select pushq.queues_under_way())::int[])
      and (
        l.abandoned
        or l.campaign_id is not null
          and not exists (
            select from pushq.fan_out f
            where f.queue_id = l.queue_id and f.campaign_id = l.campaign_id and f.list_id = l.id
              and (not f.done
                or l.user_count is not null
                  and (
                    exists (
                      select
                      from pushq.result r
                      where r.queue_id = f.queue_id and r.root_id = f.campaign_id and r.failed > 0
                        and r.retried_at is null)
                    or not (
                      select p.finished
                      from pushq.campaign_progress p
                      where p.queue_id = f.queue_id and p.campaign_id = f.campaign_id)))))
    order by l.queue_id, l.id
    limit step;
end $$;

-- Deletes up to `step` members of a list after the device `after`, and as many of its users; with the last of them it
-- also deletes the list. Returns the last deleted member's device, or null when none is left. Rows that a producer has
-- locked, in a transaction that may last, stay until the next round, and so does the list.
create or replace function pushq.forget_list(q int, list bigint, after bigint, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  upto  bigint;
  users bigint;
begin
  delete from pushq.list_user u
  where u.queue_id = q and u.list_id = list and u.user_key = any (array(
    select o.user_key
    from pushq.list_user o
    where o.queue_id = q and o.list_id = list
    order by o.user_key
    limit step
    for update skip locked));
  get diagnostics users = row_count;
  with old as materialized (
    select device_id
    from pushq.list_member
    where queue_id = q and list_id = list and device_id > after
    order by device_id
    limit step
    for update skip locked),
  gone as (
    delete from pushq.list_member m
    where m.queue_id = q and m.list_id = list and m.device_id = any (array(select device_id from old)))
  select max(device_id) into upto from old;
  if upto is null and users > 0 then
    return after;
  elsif upto is null then
    delete from pushq.list l
    where l.ctid = any (array(
      select o.ctid
      from pushq.list o
      where o.queue_id = q and o.id = list
        and not exists (select from pushq.list_member m where m.queue_id = q and m.list_id = list)
        and not exists (select from pushq.list_user u where u.queue_id = q and u.list_id = list)
      for update skip locked));
  end if;
  return upto;
end $$;
