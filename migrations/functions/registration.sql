-- What an app reports about its tokens.

-- Since when a token is known to be valid: since its app registered it, or since it was reactivated by hand. A time in
-- the future is from before the database's clock was corrected; its real time is unknown, so it does not count. Up to a
-- minute in the future counts, because an app may have registered the token since the transaction began.
create or replace function pushq.known_since(registered_at timestamptz, reactivated_at timestamptz default null)
returns timestamptz
language sql stable as $$
  select coalesce(
    greatest(
      case when $1 <= now() + interval '1 minute' then $1 end,
      case when $2 <= now() + interval '1 minute' then $2 end),
    '-infinity')
$$;

-- Registers a token that the app reports: creates the device, or reactivates it. Its user does not change. Returns the
-- device's id.
--
-- The statements of this file are planned once for all queues (`force_generic_plan`). If PostgreSQL planned them for a
-- queue that is not in its statistics, which contain others, it would expect a single row there, and read all devices
-- of the queue instead of using the whole key.
create or replace function pushq.register_device(queue text, token text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set plan_cache_mode = force_generic_plan as $$
begin
  return pushq.register(queue, token, null, null, null, true);
end $$;

-- The same. It also sets the device's user, null for none, unless `keep_user`; and stores what else the app reports.
-- For these values, null keeps what is known, and an empty value removes it.
--
-- An app calls this each time it starts, nearly always with the same values as before. So one statement checks first
-- whether anything changed: every further expression and function costs more than the look-up of a row
-- (docs/performance.md). A value that equals the stored one was checked when it was stored. A value that only means the
-- same, such as tags in another order, takes the long way. So does a value that is invalid or not allowed, and it is
-- refused there.
create or replace function pushq.register_device(
  queue         text,
  token         text,
  user_key      text,
  kind          text    default null,
  locale        text    default null,
  time_zone     text    default null,
  app_version   text    default null,
  tags          text[]  default null,
  attributes    jsonb   default null,
  installation  text    default null,
  activity_type text    default null,
  activity      text    default null,
  keep_user     boolean default false
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  who       text := pushq.caller();
  device    bigint;
  tenant    int;
  has_quota boolean;
begin
  if installation <> '' then
    select d.id, k.tenant_id, k.has_quota into device, tenant, has_quota
    from pushq.queues_for(who, queue, false) k
    join pushq.device d
      on d.queue_id = k.queue_id
      and d.token = case when octet_length(register_device.token) > 200 then null
                         when register_device.token !~ '[^0-9A-Fa-f]' and length(register_device.token) % 2 = 0
                         then decode(register_device.token, 'hex') end
    join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
    where d.active
      -- A time in the future, from before the clock was corrected, is written again.
      and d.registered_at between clock_timestamp() - interval '6 hours' and clock_timestamp()
      and current_setting('transaction_isolation') like 'read %'
      and (keep_user or d.user_key is not distinct from register_device.user_key)
      and coalesce(register_device.kind = d.kind, register_device.kind is null)
      and p.installation = register_device.installation
      and coalesce(replace(register_device.locale, '_', '-'), p.locale, '') = coalesce(p.locale, '')
      and coalesce(register_device.time_zone, p.time_zone, '') = coalesce(p.time_zone, '')
      and coalesce(register_device.app_version, p.app_version, '') = coalesce(p.app_version, '')
      and coalesce(register_device.tags, p.tags) = p.tags
      and coalesce(register_device.attributes, p.attributes) = p.attributes
      and coalesce(register_device.activity_type, p.activity_type, '') = coalesce(p.activity_type, '')
      and coalesce(register_device.activity, p.activity, '') = coalesce(p.activity, '');
    if device is not null then
      if has_quota then
        perform pushq.enter_with_quota(tenant, queue);
      end if;
      return device;
    end if;
  end if;
  return pushq.register(
    queue, token, user_key, kind,
    row(null, null, installation, activity_type, activity, pushq.reported_locale(locale),
        pushq.reported_zone(time_zone), app_version, pushq.set_of(tags), attributes, null, null)::pushq.profile,
    coalesce(keep_user, false));
end $$;

-- Registers a token with what the app reports about it; `said` is null if it reports nothing.
--
-- If the installation is known and nothing has changed, a call within six hours of the last stored registration writes
-- nothing. Without an installation, the time of each call is written: the app may have been deleted and installed again
-- meanwhile, and reports of APNs from before this call are void. The time is that of the call, not that of the
-- beginning of the caller's transaction, which may be long ago.
create or replace function pushq.register(
  queue text, token text, user_key text, kind text, said pushq.profile, keep_user boolean
) returns bigint
language plpgsql as $$
declare
  door      record := pushq.enter(queue, sends => false);
  bytes     bytea  := pushq.token(token);
  problem   text   := coalesce(
    pushq.kind_problem(kind), pushq.profile_problem(said), pushq.user_key_problem(user_key));
  was       pushq.device;                                 -- the device before this call
  olders    pushq.device[] := '{}';                       -- the tokens that this one replaces, the latest first
  older     pushq.device;                                 -- one of them
  had       pushq.profile;                                -- the profile of this device
  elder     pushq.profile;                                -- the profile of `older`
  has       pushq.profile;
  owner     text;                                         -- the user to whom what is known of this token belongs
  strangers bigint[];                                     -- of this token and `olders`: those of another user
  device    bigint;
  is_new    boolean := false;
  passes_on boolean;                                      -- pushes that wait for `older` go to this token
  is_active boolean := false;                             -- whether one of `olders` was active
begin
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  elsif said.installation <> '' then
    perform pushq.check_isolation('an installation cannot be registered');
  end if;
  select d.* into was from pushq.device d where d.queue_id = door.q and d.token = bytes;
  select p.* into had from pushq.profile p where p.queue_id = door.q and p.device_id = was.id;
  if had.device_id is not null and was.registered_at is not null
    and (keep_user or was.user_key is not distinct from register.user_key)
    and (kind is null or was.kind is not distinct from kind)
    and (said is null or pushq.merge_profiles(had, said) is not distinct from had)
  then
    if was.active and said.installation <> ''
      and was.registered_at between clock_timestamp() - interval '6 hours' and clock_timestamp()
    then
      return was.id;
    end if;
    -- Only the time changes, if the row is still the same. Another token may have replaced and so deactivated this one
    -- while the update waited for the row: only the lock of the installation tells which of the two is the later one.
    update pushq.device d
    set active = true, inactive_since = null, inactive_reason = null, registered_at = clock_timestamp(),
        replaced_by = null
    where d.queue_id = door.q and d.id = was.id and d.user_key is not distinct from was.user_key
      and d.kind is not distinct from was.kind and (d.active or coalesce(said.installation, '') = '');
    if found then
      if door.has_quota and not was.active then
        perform pushq.check_quota(door.q, devices => 1);
      end if;
      return was.id;
    end if;
  end if;

  -- Only one call at a time runs for an installation, so that only one of its tokens stays, and for a device.
  if said.installation <> '' then
    perform pushq.take_lock(concat_ws(' ', 'installation', door.q, said.installation));
  end if;
  perform pushq.lock_tokens(
    door.q, bytes, case when said.installation <> '' then pushq.merge_profiles(had, said) end);
  select * into was from pushq.device d where d.queue_id = door.q and d.token = bytes for no key update;
  if was.id is null then
    -- Another transaction may be adding the token at this moment. Then this waits for it, and its device and profile
    -- are what was known before.
    insert into pushq.device as d (queue_id, token, user_key, kind, registered_at)
    values (door.q, bytes, case when not keep_user then register.user_key end, register.kind, clock_timestamp())
    on conflict on constraint device_token_once do nothing
    returning d.id into device;
    is_new := found;
    if not is_new then
      select * into was from pushq.device d where d.queue_id = door.q and d.token = bytes for no key update;
    end if;
  end if;
  select * into had from pushq.profile p where p.queue_id = door.q and p.device_id = was.id;
  if was.registered_at is not null then
    kind := coalesce(kind, was.kind);
  end if;
  has := pushq.merge_profiles(had, said);
  if said.installation <> '' then
    olders := pushq.replace_tokens(door.q, was.id, kind, has);
    older := olders[1];
  end if;
  owner := coalesce(was.user_key, older.user_key);
  if keep_user then
    -- If no app has registered the row, for example because a send created it, the user is the older token's.
    user_key := case when was.registered_at is null and older.id is not null then older.user_key else was.user_key end;
    owner := coalesce(was.user_key, user_key);
  end if;
  -- What is known about another user does not apply to this one. What is known without a user does. The tokens may have
  -- belonged to different users.
  strangers := array_remove(
    array[case when owner is not null and owner is distinct from user_key then was.id end], null);
  if older.id is not null then
    strangers := strangers || array(
      select o.id
      from unnest(olders) o
      where o.user_key is not null and o.user_key is distinct from register.user_key);
  end if;
  if strangers <> '{}' then
    perform pushq.forget_badges_at_once(door.q, strangers);
  end if;
  -- What a backend or a file has said about the token itself goes before what is known of the older ones.
  if strangers <> '{}' or older.id is not null then
    has := had;
    if was.id = any (strangers) then
      has.tags := null;
      has.attributes := null;
    end if;
    foreach older in array olders loop
      -- Later questions about an older token are answered by this one (`pushq.successors`). Nothing stays there:
      -- whoever has that token later would get what is known of this user.
      delete from pushq.profile p where p.queue_id = door.q and p.device_id = older.id returning p.* into elder;
      if older.id = any (strangers) then
        elder.tags := null;
        elder.attributes := null;
      end if;
      has := pushq.complete_profile(has, elder);
    end loop;
    has := pushq.merge_profiles(has, said);
  end if;

  -- A row that this call has added lacks at most the user of the older token. The row may be missing after all, if it
  -- was deleted since the insert above found it.
  if not is_new or keep_user and user_key is not null then
    insert into pushq.device as d (queue_id, token, user_key, kind, registered_at)
    values (door.q, bytes, register.user_key, register.kind, clock_timestamp())
    on conflict on constraint device_token_once do update
      set active = true, inactive_since = null, inactive_reason = null, registered_at = excluded.registered_at,
          replaced_by = null, kind = excluded.kind, user_key = excluded.user_key
    returning d.id into device;
  end if;

  -- Pushes that waited for older tokens were for the user at that time. A logout or a deactivation by hand, but not one
  -- by APNs, was meant to stop them, too.
  if was.user_key is distinct from register.user_key or not was.active and was.inactive_reason is null then
    update pushq.device d set replaced_by = null where d.queue_id = door.q and d.replaced_by = was.id;
  end if;
  foreach older in array olders loop
    -- Pushes do not continue to another user, nor after a logout or a deactivation by hand, which leave no reason.
    passes_on := older.user_key is not distinct from register.user_key
      and (older.active or older.inactive_reason is not null);
    perform pushq.pass_on(door.q, array[older.id], array[device], array[passes_on]);
    is_active := is_active or older.active;
  end loop;

  has.queue_id := door.q;
  has.device_id := device;
  has.first_seen_at := coalesce(has.first_seen_at, clock_timestamp());
  if has is distinct from had then
    insert into pushq.profile as p
    select has.*
    on conflict on constraint profile_pkey do update
      set installation = excluded.installation, activity_type = excluded.activity_type, activity = excluded.activity,
          locale = excluded.locale, time_zone = excluded.time_zone, app_version = excluded.app_version,
          tags = excluded.tags, attributes = excluded.attributes, first_seen_at = excluded.first_seen_at,
          seen_at = coalesce(p.seen_at, excluded.seen_at);
  end if;
  -- A token that replaces an active one adds no device.
  if door.has_quota and (is_new or not was.active) and not is_active then
    perform pushq.check_quota(door.q, devices => 1);
  end if;
  return device;
end $$;

-- Locks the devices that a registration or a logout may change besides the token itself: the others of its
-- installation, those of `its` Live Activity, and those whose pushes go to one of these. The caller reads them again
-- afterwards, because a transaction that had locked them may have given them to another installation.
create or replace function pushq.lock_tokens(q int, token bytea, its pushq.profile) returns void
language plpgsql as $$
begin
  perform pushq.lock_with_older(q, array(
    select d.id
    from pushq.device d
    where d.queue_id = q and d.token = lock_tokens.token
    union all
    select p.device_id
    from pushq.profile p
    where p.queue_id = q and p.installation = (its).installation
      and p.activity_type is not distinct from (its).activity_type and p.activity is not distinct from (its).activity));
end $$;

-- Locks devices, and those whose pushes go to one of these, in the order of devices, so that no two calls wait for each
-- other.
create or replace function pushq.lock_with_older(q int, ids bigint[]) returns void
language plpgsql as $$
declare
  one bigint;
begin
  ids := ids || array(select d.id from pushq.device d where d.queue_id = q and d.replaced_by = any (ids));
  -- One by one: without statistics, the planner would read all devices of the queue for their order.
  for one in select i from unnest(ids) i group by i order by i loop
    perform from pushq.device d where d.queue_id = q and d.id = one for no key update;
  end loop;
end $$;

-- Deactivates the locked tokens that a token replaces: those of the same installation and kind, and of the same Live
-- Activity. The caller takes over their profiles. Returns them as they were, the latest first.
create or replace function pushq.replace_tokens(q int, device bigint, kind text, its pushq.profile)
returns pushq.device[]
language plpgsql as $$
declare
  ids    bigint[];
  one    bigint;
  older  pushq.device;
  olders pushq.device[] := '{}';
begin
  ids := array(
    select p.device_id
    from pushq.profile p
    join pushq.device d on d.queue_id = p.queue_id and d.id = p.device_id
    where p.queue_id = q and p.installation = (its).installation and p.device_id is distinct from replace_tokens.device
      and coalesce(d.kind, 'alert') = coalesce(replace_tokens.kind, 'alert')
      and p.activity_type is not distinct from (its).activity_type and p.activity is not distinct from (its).activity);
  if ids = '{}' then
    return '{}';
  end if;
  -- One by one, as in `pushq.lock_with_older`. An installation nearly always has one other token. It has more if some
  -- are inactive: an import leaves these as they are.
  foreach one in array ids loop
    select * into older from pushq.device d where d.queue_id = q and d.id = one;
    olders := array_append(olders, older);
    update pushq.device d
    set active = false, user_key = null, inactive_since = coalesce(d.inactive_since, clock_timestamp()),
        inactive_reason = null
    where d.queue_id = q and d.id = one;
  end loop;
  return array(select o from unnest(olders) o order by pushq.known_since(o.registered_at) desc, o.id desc);
end $$;

-- Removes a registration when a user logs out: the device loses its user, tags, attributes and badge count, and
-- receives nothing until it is registered again. Returns whether it was active; false for an unknown token.
create or replace function pushq.unregister_device(queue text, token text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set plan_cache_mode = force_generic_plan as $$
declare
  q          int   := (pushq.enter(queue, sends => false)).q;
  bytes      bytea := pushq.token(token);
  device     bigint;
  was_active boolean;
begin
  perform pushq.lock_tokens(q, bytes, null);
  select d.id, d.active into device, was_active
  from pushq.device d
  where d.queue_id = q and d.token = bytes
  for no key update;
  if device is null then
    -- The app may have registered the token since the transaction began.
    perform pushq.check_isolation('a token that is not known cannot be unregistered');
  end if;
  update pushq.device d
  -- The reason is removed, so that the device stays inactive if an answer of APNs that deactivated it is undone.
  set active = false, user_key = null, inactive_since = coalesce(d.inactive_since, clock_timestamp()),
      inactive_reason = null, replaced_by = null
  where d.queue_id = q and d.id = device
    and (d.active or d.user_key is not null or d.inactive_reason is not null or d.replaced_by is not null);
  -- Pushes for older tokens do not continue to this one either.
  update pushq.device d set replaced_by = null where d.queue_id = q and d.replaced_by = device;
  update pushq.profile p
  set tags = '{}', attributes = '{}'
  where p.queue_id = q and p.device_id = device and (p.tags <> '{}' or p.attributes <> '{}');
  perform pushq.forget_badges_at_once(q, array[device]);
  return coalesce(was_active, false);
end $$;

-- Deactivates a device by hand, or reactivates it. An inactive device keeps its reason. A reactivation is not a
-- registration, because only an app registers. But reports from before it no longer deactivate the device, whether it
-- is inactive now or such a report is still to come.
create or replace function pushq.set_device(
  queue text, token text, active boolean, out is_known boolean, out has_changed boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set plan_cache_mode = force_generic_plan as $$
declare
  door  record := pushq.enter(queue, sends => false);
  q     int    := door.q;
  bytes bytea  := pushq.token(token);
  known pushq.device;
begin
  select * into known from pushq.device d where d.queue_id = q and d.token = bytes for update;
  is_known := found;
  has_changed := is_known and known.active <> set_device.active;
  if set_device.active and is_known then
    update pushq.device d
    set active = true, inactive_since = null, inactive_reason = null, reactivated_at = clock_timestamp(),
        replaced_by = null
    where d.queue_id = q and d.id = known.id;
  elsif has_changed then
    update pushq.device d
    set active = false, inactive_since = clock_timestamp(), inactive_reason = null
    where d.queue_id = q and d.id = known.id;
  elsif known.replaced_by is not null then
    -- Pushes that wait for this device do not continue to its newer token either.
    update pushq.device d set replaced_by = null where d.queue_id = q and d.id = known.id;
  end if;
  if has_changed and set_device.active and door.has_quota then
    perform pushq.check_quota(q, devices => 1);
  end if;
  if has_changed then
    perform pushq.note_count(
      q, 'device', case when set_device.active then 'reactivated' else 'deactivated' end, 1, known.id);
  end if;
end $$;
