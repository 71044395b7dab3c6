-- What an app reports about its tokens.

-- Registers a token that the app reports: creates the device, or reactivates it. Its user does not change. Returns
-- its id.
--
-- The time is that of the call, not of the beginning of the caller's transaction, which may have been long ago: a
-- report of APNs from between the two is older than the registration.
create or replace function pushq.register_device(queue text, token text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door      record := pushq.enter(queue, sends => false);
  device_id bigint;
  is_new    boolean;
begin
  insert into pushq.device as d (queue_id, token, registered_at)
  values (door.q, pushq.token($2), clock_timestamp())
  on conflict on constraint device_token_once do update
    set active = true, inactive_since = null, inactive_reason = null, registered_at = excluded.registered_at,
        kind = null
  -- A row that was there has been locked for the update.
  returning id, xmax = 0 into device_id, is_new;
  if door.has_quota and is_new then
    perform pushq.check_quota(door.q, devices => 1);
  end if;
  return device_id;
end $$;

-- The same, and sets the device's user: null for none.
create or replace function pushq.register_device(queue text, token text, user_key text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  door      record := pushq.enter(queue, sends => false);
  device_id bigint;
  is_new    boolean;
begin
  insert into pushq.device as d (queue_id, token, user_key, registered_at)
  values (door.q, pushq.token($2), $3, clock_timestamp())
  on conflict on constraint device_token_once do update
    set active = true, inactive_since = null, inactive_reason = null, registered_at = excluded.registered_at,
        user_key = excluded.user_key, kind = null
  -- A row that was there has been locked for the update.
  returning id, xmax = 0 into device_id, is_new;
  if door.has_quota and is_new then
    perform pushq.check_quota(door.q, devices => 1);
  end if;
  return device_id;
end $$;

-- Removes a registration when a user logs out: the device has no user and receives nothing until it is registered
-- again. Returns whether it was active; false for an unknown token.
create or replace function pushq.unregister_device(queue text, token text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q          int   := (pushq.enter(queue, sends => false)).q;
  bytes      bytea := pushq.token(token);
  was_active boolean;
begin
  select d.active into was_active from pushq.device d where d.queue_id = q and d.token = bytes for no key update;
  update pushq.device d
  -- Without a reason: it stays inactive if an answer of APNs that has deactivated it is undone.
  set active = false, user_key = null, inactive_since = coalesce(d.inactive_since, clock_timestamp()),
      inactive_reason = null
  where d.queue_id = q and d.token = bytes and (d.active or d.user_key is not null or d.inactive_reason is not null);
  return coalesce(was_active, false);
end $$;

-- Takes a device out of all sends to come, or brings it back, by hand. An inactive device keeps its reason. Bringing it
-- back is not a registration, since only an app registers. But reports from before it no longer deactivate the device,
-- whether it is inactive now or a report about it is still on its way.
create or replace function pushq.set_device(
  queue text, token text, active boolean, out is_known boolean, out has_changed boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q     int   := (pushq.enter(queue, sends => false)).q;
  bytes bytea := pushq.token(token);
  known pushq.device;
begin
  select * into known from pushq.device d where d.queue_id = q and d.token = bytes for update;
  is_known := found;
  has_changed := is_known and known.active <> set_device.active;
  if set_device.active and is_known then
    update pushq.device d
    set active = true, inactive_since = null, inactive_reason = null, reactivated_at = clock_timestamp()
    where d.queue_id = q and d.id = known.id;
  elsif has_changed then
    update pushq.device d
    set active = false, inactive_since = clock_timestamp(), inactive_reason = null
    where d.queue_id = q and d.id = known.id;
  end if;
  if has_changed then
    perform pushq.note_devices(q, case when set_device.active then 'reactivated' else 'deactivated' end, 1, known.id);
  end if;
end $$;
