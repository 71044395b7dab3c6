-- Moving a tenant to another database of the installation (PostgresStore/Moving/TenantMover.swift carries it out).
--
-- The contents are copied first, while the tenant's pushes are still sent. In the other database they are stored under
-- the number of a queue that does not exist yet, so nothing there processes them. Changes made meanwhile are noted
-- (moved_rows.sql). Then the tenant is stopped, and its settings are taken out of their tables. Without them, no
-- session can reach or change what the tenant has. The noted changes are copied, and the settings are put into the
-- other database. At any moment at most one of the two databases has the settings, so nothing is sent twice.

-- All tables with rows of a tenant or its queues, in the order in which they are filled.
--   setting: a few rows, which say that the tenant exists and how it is served, and what its quotas are checked by
--   content: any number of rows, by queue
--   stays:   counts that each database makes for itself, and rows that must not exist when a tenant moves
create or replace function pushq.tables_of_tenants() returns table (name text, kind text)
language sql stable as $$
  values ('tenant', 'setting'), ('tenant_quota', 'setting'), ('tenant_usage', 'setting'),
         ('tenant_login', 'setting'), ('app', 'setting'),
         ('credential', 'setting'), ('queue', 'setting'), ('rate_limit', 'setting'), ('frequency_cap', 'setting'),
         ('quiet_hours', 'setting'), ('audience', 'setting'), ('schedule', 'setting'), ('webhook', 'setting'),
         ('webhook_progress', 'setting'), ('feedback_poll', 'setting'), ('judgement', 'setting'),
         -- A message is kept because of its recipients, a list because of its campaign, and a cancellation because of
         -- its jobs.
         ('body', 'content'), ('message', 'content'), ('result', 'content'), ('feedback', 'content'),
         ('device', 'content'), ('profile', 'content'), ('channel', 'content'), ('campaign', 'content'),
         ('fan_out', 'content'), ('wave', 'content'), ('campaign_share', 'content'), ('campaign_tally', 'content'),
         ('list', 'content'), ('list_member', 'content'), ('list_user', 'content'), ('job', 'content'),
         ('recent_push', 'content'), ('badge', 'content'), ('send_key', 'content'), ('empty_send', 'content'),
         ('newest_update', 'content'), ('feedback_record', 'content'), ('cancelled', 'content'),
         ('stuck_job', 'content'),
         ('call', 'stays'), ('throughput', 'stays'), ('lease', 'stays'),
         ('restored_queue', 'stays'), ('removed_queue', 'stays'), ('fan_out_turn', 'stays')
$$;

-- The condition for the rows of a settings table that belong to a tenant with these queues.
create or replace function pushq.setting_condition(from_table text, owner int, queues int[]) returns text
language sql stable as $$
  select case
    when from_table = 'tenant' then format('r.id = %s', owner)
    when exists (
      select from pg_attribute a
      where a.attrelid = format('pushq.%I', from_table)::regclass and a.attname = 'tenant_id' and not a.attisdropped)
      then format('r.tenant_id = %s', owner)
    else format('r.queue_id = any (%L::int[])', queues) end
$$;

create or replace function pushq.queues_of_tenant(owner int) returns int[]
language sql stable as $$ select array(select q.id from pushq.queue q where q.tenant_id = $1 order by q.id) $$;

-- The queues whose contents are here while their tenant is moving. Nothing may process these rows: they must stay as
-- they were copied, and the settings for them are not here. Callers write `(select pushq.queues_under_way())`: in a
-- condition, the function would be called for each row.
create or replace function pushq.queues_under_way() returns int[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select array(select unnest(m.queues) from pushq.tenant_move m)
$$;

-- The settings of a tenant: the rows of each table. They are json, not jsonb, which would rewrite a payload.
create or replace function pushq.settings_of(owner int) returns json
language plpgsql stable set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' as $$
declare
  place record;
  rows  json;
  parts text[] := '{}';
begin
  for place in select t.name from pushq.tables_of_tenants() t where t.kind = 'setting' loop
    execute format('select coalesce(json_agg(row_to_json(r)), ''[]'') from pushq.%I r where %s', place.name,
                   pushq.setting_condition(place.name, owner, pushq.queues_of_tenant(owner))) into rows;
    parts := parts || format('%s: %s', to_json(place.name), rows);
  end loop;
  return format('{%s}', array_to_string(parts, ', '))::json;
end $$;

-- Inserts settings. `ids` maps the numbers of the database that they come from to numbers of this one, by table; null:
-- they come from this database. An existing row wins over a new row with the same key, and the first of several new
-- ones over the others. A column that a row lacks was added after the row was written, and gets its default.
create or replace function pushq.put_settings(settings json, ids jsonb) returns void
language plpgsql set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601' as $$
declare
  place   record;
  columns text;
  fields  text;
begin
  perform set_config('pushq.puts_settings', 'on', true);  -- for pushq.check_gateway
  for place in select t.name from pushq.tables_of_tenants() t where t.kind = 'setting' loop
    select string_agg(format('%I', a.attname), ', ' order by a.attnum),
           string_agg(
             case
               when ids is null or n.kind is null then format('r.%I', a.attname)
               -- A limit of the whole tenant has no queue.
               else format('case when r.%1$I = 0 then 0 else ($2 -> %2$L ->> r.%1$I::text)::int end', a.attname, n.kind)
             end, ', ' order by a.attnum)
    into columns, fields
    from pg_attribute a
    cross join lateral (
      select case
        when a.attname = 'tenant_id' then 'tenant'
        when a.attname = 'queue_id' then 'queue'
        when a.attname = 'app_id' then 'app'
        when a.attname = 'credential_id' then 'credential'
        when a.attname = 'id' and place.name in ('tenant', 'app', 'credential', 'queue') then place.name end as kind) n
    where a.attrelid = format('pushq.%I', place.name)::regclass and a.attnum > 0 and not a.attisdropped
      and a.attname in (
        select k.name
        from json_array_elements(settings -> place.name) r(fields)
        cross join lateral json_object_keys(r.fields) k(name)
        group by k.name
        having count(*) = json_array_length(settings -> place.name));
    continue when columns is null;
    execute format(
      'insert into pushq.%1$I (%2$s) overriding system value
       select %3$s from json_populate_recordset(null::pushq.%1$I, $1 -> %4$L) r
       on conflict on constraint %5$I do nothing', place.name, columns, fields, place.name, place.name || '_pkey')
    using settings, ids;
  end loop;
  perform set_config('pushq.puts_settings', 'off', true);
end $$;

-- Takes the settings of a tenant with these queues out of their tables, and returns them.
--
-- It waits for transactions that are changing a setting, and takes the changed setting: a schedule that has run in
-- between would otherwise run again in the other database.
create or replace function pushq.take_settings(owner int, queues int[]) returns json
language plpgsql set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'iso_8601'
set extra_float_digits = 1 set bytea_output = 'hex' as $$
declare
  place record;
  rows  json;
  parts text[] := '{}';
begin
  delete from pushq.call c where c.tenant_id = owner;
  delete from pushq.throughput t where t.queue_id = any (queues);
  for place in
    select t.name from pushq.tables_of_tenants() with ordinality t(name, kind, n)
    where t.kind = 'setting'
    order by t.name in ('queue', 'app', 'credential', 'tenant'), t.n desc
  loop
    execute format(
      'with gone as (delete from pushq.%I r where %s returning r.*)
       select coalesce(json_agg(row_to_json(g)), ''[]'') from gone g',
      place.name, pushq.setting_condition(place.name, owner, queues)) into rows;
    parts := parts || format('%s: %s', to_json(place.name), rows);
  end loop;
  return format('{%s}', array_to_string(parts, ', '))::json;
end $$;

-- Begins a move in the database that the tenant leaves.
create or replace function pushq.begin_leaving(tenant text, id uuid, peer text) returns void
language plpgsql as $$
declare
  owner pushq.tenant;
begin
  select t.* into owner from pushq.tenant t where t.name = begin_leaving.tenant for update;
  if not found then
    raise exception using errcode = 'PQ404', message = format('there is no tenant %s', begin_leaving.tenant);
  end if;
  perform pushq.refuse_undecided(tenant, owner.id);
  -- Another tenant with this name has moved away before.
  delete from pushq.tenant_move m where m.tenant = begin_leaving.tenant and m.leaves and m.stage = 'moved';
  insert into pushq.tenant_move (tenant, id, leaves, stage, peer, owner, history_days, feedback_days)
  values (begin_leaving.tenant, begin_leaving.id, true, 'copying', begin_leaving.peer, owner.id, owner.history_days,
          owner.feedback_days);
end $$;

-- Refuses to move a tenant that waits for a decision since the database was restored: the decision is made in this
-- database.
create or replace function pushq.refuse_undecided(tenant text, owner int) returns void
language plpgsql stable as $$
begin
  if exists (
    select from pushq.restored_queue r join pushq.queue q on q.id = r.queue_id where q.tenant_id = owner) then
    raise exception using errcode = 'PQ409',
      message = format('queues of %s wait for a decision since the database was restored', tenant),
      hint = 'decide first, then repeat the command; list the queues with: pushq-admin restore show';
  end if;
end $$;

-- Makes a tenant's webhook wait, so that no message to it is being sent when the tenant leaves: the other database
-- would send it again. Returns the number of messages that are still being sent.
create or replace function pushq.hold_reports(tenant text) returns bigint
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  update pushq.tenant_move m
  -- If the mover does not continue, the webhook continues after this time.
  set reports_held_until = clock_timestamp() + interval '1 minute'
  where m.tenant = hold_reports.tenant and m.leaves and m.stage in ('copying', 'stopping')
  returning * into strict move;
  return (
    select count(*)
    from pushq.webhook_progress p
    where p.tenant_id = move.owner and p.taken_until > clock_timestamp());
end $$;

-- Stops a tenant. Returns the number of its jobs that workers hold, plus the number of its lists of the feedback
-- service that workers are reading.
create or replace function pushq.stop_leaving(tenant text) returns bigint
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = stop_leaving.tenant and m.leaves and m.stage in ('copying', 'stopping')
  for update;
  perform pushq.refuse_undecided(tenant, move.owner);
  if move.stage = 'copying' then
    update pushq.tenant_move m
    set stage = 'stopping', suspended_at = (select t.suspended_at from pushq.tenant t where t.id = move.owner),
        changed_at = clock_timestamp()
    where m.tenant = move.tenant;
    update pushq.tenant t set suspended_at = coalesce(t.suspended_at, now()) where t.id = move.owner;
  end if;
  perform pushq.tell('tenant', move.owner), pushq.wake();
  return (
    select count(*)
    from pushq.queue q
    join pushq.lease l on l.queue_id = q.id
    where q.tenant_id = move.owner) + (
    select count(*)
    from pushq.queue q
    join pushq.feedback_poll p on p.queue_id = q.id
    where q.tenant_id = move.owner and p.taken_until > clock_timestamp());
end $$;

-- Undoes `pushq.stop_leaving`: the tenant continues as before, and is still being moved.
create or replace function pushq.continue_leaving(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = continue_leaving.tenant and m.leaves and m.stage in ('copying', 'stopping')
  for update;
  if move.stage = 'stopping' then
    update pushq.tenant t set suspended_at = move.suspended_at where t.id = move.owner;
  end if;
  update pushq.tenant_move m
  set stage = 'copying', reports_held_until = null, changed_at = clock_timestamp()
  where m.tenant = move.tenant;
  perform pushq.tell('tenant', move.owner), pushq.wake();
end $$;

-- Takes a stopped tenant out of use.
--
-- It waits for transactions that are changing settings, but not for long, because sessions that have already found the
-- tenant wait behind it. After a time-out, the caller repeats the call.
create or replace function pushq.detach_tenant(tenant text) returns void
language plpgsql set lock_timeout = '1s' as $$
declare
  move    pushq.tenant_move;
  held    bigint;
  owner   pushq.tenant;
  names   text[];
  numbers int[];
begin
  -- With this lock, a session that detects a restore does so either before this call, which then finds undecided
  -- queues, or after it.
  perform pushq.take_lock('lineage');
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = detach_tenant.tenant and m.leaves and m.stage = 'stopping'
  for update;
  perform from pushq.tenant t where t.id = move.owner for update;
  held := pushq.stop_leaving(tenant);
  if not exists (select from pushq.tenant t where t.id = move.owner and t.suspended_at is not null) then
    raise exception using errcode = 'PQ409', message = format('%s was resumed during its move', tenant),
      hint = 'do not resume it during the move, and repeat the call';
  elsif held > 0 then
    raise exception using errcode = 'PQ409',
      message = format('workers still hold jobs of %s, or read its lists of the feedback service: %s in all', tenant,
                       held),
      hint = 'repeat the call in some seconds';
  end if;
  -- In the other database, the tenant is suspended only if it was before the move stopped it.
  update pushq.tenant t set suspended_at = move.suspended_at where t.id = move.owner;
  select t.* into owner from pushq.tenant t where t.id = move.owner;
  names := array(select l.login from pushq.tenant_login l where l.tenant_id = owner.id);
  numbers := pushq.queues_of_tenant(owner.id);
  -- A step that lists reports tells the webhook of them at its end. This waits for one that has begun, because it would
  -- find no webhook any more.
  perform from pushq.duty d where d.name = 'listing' for update;
  update pushq.tenant_move m
  set stage = 'detached', settings = pushq.take_settings(owner.id, numbers), logins = names, queues = numbers,
      history_days = owner.history_days, feedback_days = owner.feedback_days, changed_at = clock_timestamp()
  where m.tenant = move.tenant;
end $$;

-- Adds the settings that were changed by transactions that had found a queue of a tenant before it was detached. The
-- caller waits until these transactions have ended.
create or replace function pushq.take_late_settings(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
  late json;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = take_late_settings.tenant and m.leaves and m.stage = 'detached'
  for update;
  if exists (select from pushq.lineage l where l.is_restore and l.id > move.lineage_id) then
    raise exception using errcode = 'PQ409',
      message = format('the database was restored while %s was being moved, so it is back here', tenant),
      hint = 'decide about its queues, then repeat the command; list them with: pushq-admin restore show';
  end if;
  late := pushq.take_settings(move.owner, move.queues);
  -- The later of two rows with the same key comes first, and wins.
  update pushq.tenant_move m
  set settings = (
    select format('{%s}', string_agg(
             format('%s: [%s]', to_json(t.name), concat_ws(
               ',', nullif(btrim(late ->> t.name, '[]'), ''), nullif(btrim(move.settings ->> t.name, '[]'), ''))),
             ', '))::json
    from pushq.tables_of_tenants() t
    where t.kind = 'setting')
  where m.tenant = move.tenant;
end $$;

-- Puts the settings of a detached tenant back into their tables. If the database was restored meanwhile, the tenant has
-- been served after the restored moment: here, as it is now again, or in the other database. So its queues wait for a
-- decision like those of other tenants.
create or replace function pushq.put_back(move pushq.tenant_move) returns void
language plpgsql as $$
declare
  restore pushq.lineage;
begin
  perform pushq.put_settings(move.settings, null);
  select l.* into restore
  from pushq.lineage l
  where l.is_restore and l.id > move.lineage_id
  order by l.id desc
  limit 1;
  if found then
    perform pushq.pause_restored(restore, move.queues);
  end if;
end $$;

-- Undoes `pushq.detach_tenant`: the tenant's pushes are sent from here again, and the move continues later.
create or replace function pushq.reattach_tenant(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = reattach_tenant.tenant and m.leaves and m.stage = 'detached'
  for update;
  update pushq.tenant_move m
  set stage = 'copying', settings = null, queues = '{}', logins = '{}', reports_held_until = null,
      changed_at = clock_timestamp()
  where m.tenant = move.tenant;
  perform pushq.put_back(move);
  perform pushq.tell('tenant', move.owner), pushq.wake();
end $$;

-- Undoes a move in the database that the tenant would have left: the tenant is here as before. With `suspends`, nothing
-- is sent for it, because the other database has it, too.
create or replace function pushq.abandon_leaving(tenant text, suspends boolean) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = abandon_leaving.tenant and m.leaves and m.stage <> 'moved'
  for update;
  delete from pushq.tenant_move m where m.tenant = move.tenant;
  delete from pushq.moved_row r where r.owner = move.owner;
  if move.stage = 'detached' then
    perform pushq.put_back(move);
  elsif move.stage = 'stopping' then
    update pushq.tenant t set suspended_at = move.suspended_at where t.id = move.owner;
  end if;
  if suspends then
    update pushq.tenant t set suspended_at = coalesce(t.suspended_at, now()) where t.id = move.owner;
  end if;
  perform pushq.tell('tenant', move.owner), pushq.wake();
end $$;

-- Suspends a tenant, or resumes it. Returns whether that changed anything; null if the tenant does not exist here.
--
-- A tenant that is stopped for a move is suspended by the move. What an operator sets then applies in the other
-- database.
create or replace function pushq.suspend_tenant(tenant text, suspends boolean) returns boolean
language plpgsql as $$
declare
  move  pushq.tenant_move;
  owner pushq.tenant;
begin
  select m.* into move from pushq.tenant_move m where m.tenant = suspend_tenant.tenant and m.leaves for update;
  select t.* into owner from pushq.tenant t where t.name = suspend_tenant.tenant for update;
  if not found then
    return null;
  end if;
  if move.stage = 'stopping' then
    update pushq.tenant_move m
    set suspended_at = case when suspends then now() end
    where m.tenant = move.tenant and (m.suspended_at is not null) <> suspends;
    if not found then
      return false;
    end if;
    perform pushq.note_change(
      tenant, 'tenant', tenant, 'changed', jsonb_build_object('suspended_at', jsonb_build_object(
        'from', move.suspended_at, 'to', case when suspends then now() end)));
    return true;
  end if;
  update pushq.tenant t
  set suspended_at = case when suspends then now() end
  where t.id = owner.id and (t.suspended_at is not null) <> suspends;
  if not found then
    return false;
  end if;
  if not suspends then
    -- Runs that were due meanwhile have failed repeatedly. They are tried at once instead of after a quarter of an
    -- hour, when it may be too late for them.
    update pushq.schedule s
    set retry_at = now()
    from (
      select x.queue_id, x.name
      from pushq.schedule x
      join pushq.queue k on k.id = x.queue_id
      where k.tenant_id = owner.id and x.retry_at > now()
      for no key update of x skip locked) x
    where s.queue_id = x.queue_id and s.name = x.name;
  end if;
  perform pushq.tell('tenant', owner.id), pushq.wake();
  return true;
end $$;

-- The number of jobs of a detached tenant that workers hold: a statement that began before has claimed them.
create or replace function pushq.held_of_move(tenant text) returns bigint
language sql stable as $$
  select count(*)
  from pushq.tenant_move m
  join pushq.lease l on l.queue_id = any (m.queues)
  where m.tenant = $1 and m.leaves
$$;

-- Marks that the tenant is in the other database. Its remains here are deleted like those of a removed tenant.
create or replace function pushq.finish_leaving(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = finish_leaving.tenant and m.leaves and m.stage = 'detached'
  for update;
  insert into pushq.removed_queue (queue_id, tenant) select q, move.tenant from unnest(move.queues) q;
  delete from pushq.moved_row r where r.owner = move.owner;
  update pushq.tenant_move m
  set stage = 'moved', settings = null, queues = '{}', noted = '{}', reports_held_until = null,
      changed_at = clock_timestamp()
  where m.tenant = move.tenant;
  perform pushq.note_change(move.tenant, 'tenant', move.tenant, 'moved',
                            jsonb_build_object('database', jsonb_build_object('to', move.peer)));
end $$;

-- Begins a move in the database where the tenant arrives, or continues it. `numbers` has the tenant's numbers by table;
-- each one that has no number of this database yet gets one. Returns all numbers, with those of this database.
create or replace function pushq.begin_arriving(
  tenant text, id uuid, peer text, numbers jsonb, history_days int, feedback_days int
) returns jsonb
language plpgsql as $$
declare
  known jsonb;
  place record;
begin
  perform pushq.take_lock('arrival ' || tenant);
  if exists (select from pushq.tenant t where t.name = begin_arriving.tenant) then
    raise exception using errcode = 'PQ409',
      message = format('the other database already has a tenant %s', begin_arriving.tenant),
      hint = 'see where it is with: pushq-admin tenant where';
  end if;
  -- The tenant was here before, and comes back.
  delete from pushq.tenant_move m
  where m.tenant = begin_arriving.tenant and m.leaves and m.stage = 'moved' and m.id <> begin_arriving.id;
  insert into pushq.tenant_move (tenant, id, leaves, stage, peer, history_days, feedback_days)
  values (begin_arriving.tenant, begin_arriving.id, false, 'copying', begin_arriving.peer, begin_arriving.history_days,
          begin_arriving.feedback_days)
  on conflict on constraint tenant_move_pkey do nothing;
  select m.ids into known
  from pushq.tenant_move m
  where m.tenant = begin_arriving.tenant and m.id = begin_arriving.id and not m.leaves and m.stage = 'copying'
  for update;
  if not found then
    raise exception using errcode = 'PQ409',
      message = format('another move of %s is under way in the other database', begin_arriving.tenant);
  end if;
  for place in
    select k.key as name, e.number
    from jsonb_each(numbers) k
    cross join lateral jsonb_array_elements_text(k.value) e(number)
  loop
    if known -> place.name -> place.number is null then
      known := jsonb_set(
        known, array[place.name],
        coalesce(known -> place.name, '{}') || jsonb_build_object(
          place.number, nextval(pg_get_serial_sequence(format('pushq.%I', place.name), 'id'))));
    end if;
  end loop;
  update pushq.tenant_move m
  set ids = known, changed_at = clock_timestamp(),
      queues = array(select q.value::int from jsonb_each_text(known -> 'queue') q order by 1)
  where m.tenant = begin_arriving.tenant;
  return known;
end $$;

-- Puts the tenant into this database. `last_lane` and `last_id` are the highest lane and id that its old database may
-- have assigned: this database continues above them.
create or replace function pushq.arrive(tenant text, settings json, last_lane int, last_id bigint) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  select m.* into strict move
  from pushq.tenant_move m
  where m.tenant = arrive.tenant and not m.leaves and m.stage = 'copying'
  for update;
  if last_lane > (select l.last_value from pushq.lane l) then
    perform setval('pushq.lane', last_lane);
  end if;
  perform pushq.draw_above(last_id);
  update pushq.tenant_move m set stage = 'arrived', changed_at = clock_timestamp() where m.tenant = move.tenant;
  perform pushq.put_settings(settings, move.ids);
  -- Quotas hold by the last count of the other database, whose clock may differ, until a worker counts all.
  update pushq.tenant_usage u
  set counted_at = case when u.counted_at = l.counted_at then clock_timestamp() end, devices_counted_at = null
  from (select x.tenant_id as id, max(x.counted_at) as counted_at from pushq.tenant_usage x group by x.tenant_id) l
  where u.tenant_id = l.id and l.id = (move.ids -> 'tenant' ->> (settings -> 'tenant' -> 0 ->> 'id'))::int;
  -- Queues of apps that were removed after they had been copied.
  insert into pushq.removed_queue (queue_id, tenant)
  select q.id::int, move.tenant
  from jsonb_each_text(move.ids -> 'queue') q(there, id)
  where not exists (select from pushq.queue k where k.id = q.id::int);
  perform pushq.note_change(move.tenant, 'tenant', move.tenant, 'moved',
                            jsonb_build_object('database', jsonb_build_object('from', move.peer)));
  perform pushq.tell('tenant', (move.ids -> 'tenant' ->> (settings -> 'tenant' -> 0 ->> 'id'))::int), pushq.wake();
end $$;

-- Undoes the arrival of a tenant that stays where it was.
create or replace function pushq.abandon_arriving(tenant text) returns void
language plpgsql as $$
declare
  move pushq.tenant_move;
begin
  delete from pushq.tenant_move m
  where m.tenant = abandon_arriving.tenant and not m.leaves and m.stage = 'copying'
  returning m.* into move;
  insert into pushq.removed_queue (queue_id, tenant) select q, move.tenant from unnest(move.queues) q;
end $$;

-- Refuses the name of a tenant that is moving: the tenant could not arrive, or come back.
create or replace function pushq.keep_name() returns trigger
language plpgsql as $$
begin
  if exists (
    select from pushq.tenant_move m
    where m.tenant = new.name and (m.leaves and m.stage = 'detached' or not m.leaves and m.stage = 'copying')) then
    raise exception using errcode = 'PQ409',
      message = format('tenant %s is being moved to or from another database', new.name),
      hint = 'finish the move, or undo it with: pushq-admin tenant move --abandon';
  end if;
  return new;
end $$;

create or replace trigger tenant_keep_name before insert or update of name on pushq.tenant
for each row execute function pushq.keep_name();

-- Raises the error for a tenant that is being moved or has moved, if the caller may know that. `is_known`: the caller
-- has found the tenant.
create or replace function pushq.refuse_moved(tenant text, who text, is_known boolean) returns void
language plpgsql stable as $$
declare
  move pushq.tenant_move;
begin
  select m.* into move
  from (
    -- Reads all moves that the caller may know of, whatever the name: so the name of another tenant takes as long as
    -- one that does not exist.
    select m.*
    from pushq.tenant_move m
    where is_known or who = any (m.logins) or pushq.acts_for_all(who)
    offset 0) m
  where m.tenant = refuse_moved.tenant
    and (m.leaves and m.stage <> 'copying' or not m.leaves and m.stage = 'copying')
    -- Another tenant with this name was created here since.
    and not (m.stage = 'moved' and exists (select from pushq.tenant t where t.name = m.tenant));
  if not found then
    return;
  elsif not move.leaves then
    raise exception using errcode = 'PQ503',
      message = format('tenant “%s” is being moved here from %s', tenant, move.peer),
      hint = 'until it has arrived, connect to that database';
  elsif move.stage = 'moved' then
    raise exception using errcode = 'PQ410', message = format('tenant “%s” has moved to %s', tenant, move.peer),
      hint = 'connect to that database';
  else
    raise exception using errcode = 'PQ503',
      message = format('tenant “%s” is being moved to %s', tenant, move.peer),
      hint = 'repeat the call in a few seconds: it then says where the tenant is';
  end if;
end $$;
