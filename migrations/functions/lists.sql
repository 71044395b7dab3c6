-- Lists of tokens or users for campaigns: loaded in parts, and deleted when nobody needs them any more.

-- Identifies a set of tokens, whatever their order: the xor of their SHA-256 hashes. `tokens` has no duplicates.
create or replace function pushq.set_digest(tokens bytea[]) returns bit(256)
language sql immutable as $$
  select coalesce(bit_xor(('x' || encode(sha256(t), 'hex'))::bit(256)), repeat('0', 256)::bit(256)) from unnest($1) t
$$;

-- Creates a list of a queue for a campaign of this push type, which decides the kind of unknown tokens; of one that
-- starts Live Activities that is 'liveactivity-start'. Returns its id.
create or replace function pushq.make_list(q int, push_type text) returns bigint
language plpgsql as $$
declare
  starts  boolean := push_type = 'liveactivity-start';
  problem text := pushq.unknown_push_type(push_type);
  new_id  bigint;
begin
  if problem is not null and not starts then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
  insert into pushq.list (queue_id, kind)
  values (q, case when starts then push_type else pushq.device_kind(push_type) end)
  returning id into new_id;
  return new_id;
end $$;

-- The same for producers. A list without a campaign is deleted a day after its last part was loaded.
create or replace function pushq.new_list(queue text, push_type text default 'alert') returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pushq.make_list((pushq.enter(queue, sends => true)).q, push_type);
end $$;

-- Adds hexadecimal tokens to a list: some ten thousand per call are best. Unknown tokens become devices; an
-- inactive device stays inactive. Tokens that are already on the list are skipped, so that a part can be repeated.
-- Returns how many were added. Calls for one list wait for each other's commit.
create or replace function pushq.add_to_list(queue text, list bigint, tokens text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pushq.add_members(
    (pushq.enter(queue, sends => true)).q, queue, list, array(select pushq.token(t) from unnest(tokens) t));
end $$;

-- The same for tokens as bytes. Under another name: hexadecimal text would be taken for bytes where a literal may be
-- either.
create or replace function pushq.add_tokens_to_list(queue text, list bigint, tokens bytea[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pushq.add_members((pushq.enter(queue, sends => true)).q, queue, list, tokens);
end $$;

-- A list of queue `q`, which is called `queue`, to be added to: other callers wait.
create or replace function pushq.open_list(q int, queue text, list bigint) returns pushq.list
language plpgsql as $$
declare
  known pushq.list;
begin
  select * into known from pushq.list l where l.queue_id = q and l.id = list for no key update;
  if not found or known.abandoned then
    raise exception using errcode = 'PQ404', message = format('queue “%s” has no list %s', queue, list),
      hint = 'a list is deleted a day after its last part: load it again';
  elsif known.campaign_id is not null then
    raise exception using errcode = 'PQ409', message = format('list %s was already used for a campaign', list),
      hint = 'begin another list: pushq.new_list';
  end if;
  return known;
end $$;

-- Gives up a list that no campaign was started with: it counts for no quota any more, and upkeep deletes it. Returns
-- whether there was one. What was refused because of too many calls must be possible to give up all the same.
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
    -- What is gone does not stand in the way of the next call.
    perform pushq.count_usage(k.tenant_id, by_producer => true) from pushq.queue k where k.id = door.q;
  end if;
  return true;
end $$;

-- Adds users to a list, which is then one of users: some ten thousand per call are best. Of each user the devices are
-- added that are active now and whose tokens are of the list's kind. Of a list for starting Live Activities these are
-- tokens for `activity_type`, or for no type in particular, if that is given; the start of its campaign looks at it in
-- any case. Users who are on the list already are skipped, so that a part can be repeated. Returns how many users were
-- added, with how many devices, and how many of these users have none.
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
  elsif exists (select from unnest(users) u where coalesce(u, '') = '') then
    raise exception using errcode = 'PQ400', message = 'a user key is empty', hint = 'leave it out';
  end if;
  perform pushq.check_user_key(u) from unnest(users) u where octet_length(u) > 200;
  with fresh as materialized (
    insert into pushq.list_user (queue_id, list_id, user_key)
    select q, list, s.u from (select distinct u from unnest(users) u order by u) s
    on conflict do nothing
    returning user_key),
  found as materialized (
    select f.user_key, d.id
    from fresh f
    join pushq.device d on d.queue_id = q and d.user_key = f.user_key and d.active
      and coalesce(d.kind, 'alert') = coalesce(known.kind, 'alert')
      and (activity_type is null or not pushq.starts_another(q, d.id, activity_type))),
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

-- The tokens of the active devices of users whose tokens are for this push type, to preview a campaign for them; how
-- many different users these are, and how many of them have no such device. `activity_type` is the type of Live
-- Activity that the campaign starts.
create or replace function pushq.tokens_of_users(
  queue text, users text[], push_type text default 'alert', activity_type text default null,
  out tokens bytea[], out given bigint, out without_device bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  q   int  := (pushq.enter(queue, sends => false)).q;
  aim text := case when push_type = 'liveactivity-start' then push_type
                   else coalesce(pushq.device_kind(push_type), 'alert') end;
begin
  select coalesce(array_agg(d.token) filter (where d.id is not null), '{}'), count(distinct s.u),
         count(distinct s.u) filter (where d.id is null)
  into tokens, given, without_device
  from (select distinct u from unnest(users) u) s
  left join pushq.device d on d.queue_id = q and d.user_key = s.u and d.active and coalesce(d.kind, 'alert') = aim
    and (activity_type is null or not pushq.starts_another(q, d.id, activity_type));
end $$;

-- Adds tokens to a list of queue `q`, which is called `queue`.
--
-- Planned for any queue and any tokens. Planned for these, a queue whose devices are newer than the table's
-- statistics counts as empty, and each token was compared with each device: more than a minute for 20,000 of 60,000,
-- not 0.7 s.
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

  -- Ascending, so that neighbours in the index are written together.
  insert into pushq.device (queue_id, token, kind)
  select q, s.t, known.kind
  from (select distinct t from unnest(tokens) t order by t) s
  where not exists (select from pushq.device d where d.queue_id = q and d.token = s.t)
  on conflict do nothing;
  get diagnostics fresh = row_count;

  with given as materialized (
    select d.id
    from (select distinct t from unnest(tokens) t) s
    join pushq.device d on d.queue_id = q and d.token = s.t),
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
    join pushq.device d on d.queue_id = q and d.id = f.device_id) n
  where l.queue_id = q and l.id = list
  returning n.tokens into added;
  perform pushq.check_quota(q, recipients => added, devices => fresh);
  return added;
end $$;

-- The lists whose members are not needed any more: their campaign has fanned out or has another list, or they have
-- had no campaign for a day. The users of a list are needed until nothing of its campaign can be sent any more, nor
-- sent again: each recipient is one whose device belongs to one of them when it is sent to.
create or replace function pushq.lists_to_forget() returns table (queue_id int, list_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- Marked first, so that no caller adds to a list, or starts a campaign with it, when some members are gone. Those
  -- that a caller adds to at this moment are not abandoned.
  update pushq.list l set abandoned = true
  where l.ctid = any (array(
    select o.ctid
    from pushq.list o
    where o.campaign_id is null and not o.abandoned and o.loaded_at < now() - interval '1 day'
    for no key update skip locked));
  return query
    select l.queue_id, l.id
    from pushq.list l
    where l.abandoned
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
                    where p.queue_id = f.queue_id and p.campaign_id = f.campaign_id))));
end $$;

-- Deletes up to `step` members of a list behind the device `after`, and as many of its users; and the list with the
-- last of them. Returns the last one's device, or null when there are none left. What a producer has locked, in a
-- transaction that may last, is left to the next round, and so is the list.
create or replace function pushq.forget_list(q int, list bigint, after bigint, step int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
