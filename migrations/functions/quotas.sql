-- The quotas of tenants (`pushq.tenant_quota`), and how much of them is used.
--
-- A worker counts every few seconds (Workers/Duties/QuotasDuty.swift). A call is refused if the last count plus what
-- the call adds exceeds the quota. So a producer writes nothing for the quota and waits for no lock, and a transaction
-- that rolls back is never counted. A tenant exceeds a quota by no more than what its other calls add between two
-- counts, and what was not committed at the second count.

-- The queue of a producer's call. Every function that producers call begins with this: it checks the caller, counts the
-- call if calls are limited, and refuses a call that creates pushes if the tenant is suspended. Only
-- `pushq.register_device` first looks, by the same rules, whether there is anything to do. `counts`: false for a call
-- that only gives up what other calls added, and so must not be refused because of their number. `has_quota`: whether
-- the caller has to check what it adds with `pushq.check_quota`.
create or replace function pushq.enter(
  queue text, sends boolean, counts boolean default true, out q int, out has_quota boolean
)
language plpgsql as $$
declare
  who       text := pushq.caller();
  tenant    int;
  suspended timestamptz;
begin
  select k.queue_id, k.tenant_id, k.suspended_at, k.has_quota into q, tenant, suspended, has_quota
  from pushq.queues_for(who, queue, false) k;
  if q is null then
    perform pushq.refuse_queue(who, queue);
  end if;
  if pushq.is_new_start() then
    perform pushq.follow_start();
  end if;
  if has_quota and counts then
    perform pushq.enter_with_quota(tenant, queue);
  end if;
  if sends and suspended is not null then
    perform pushq.refuse_suspended(who, split_part(queue, '/', 1));
  end if;
end $$;

-- The checks of a call of a tenant with a quota, before the call adds anything. The calls of operators are not limited:
-- whoever stops a tenant's mistake must not compete with the tenant's own calls.
create or replace function pushq.enter_with_quota(tenant int, queue text) returns void
language plpgsql as $$
declare
  max_calls int;
  is_stale  boolean;
begin
  select o.max_calls,
         coalesce(
           u.counted_at not between pushq.snapshot_time() - interval '30 seconds'
                                and clock_timestamp() + interval '1 minute', true)
  into max_calls, is_stale
  from pushq.tenant_quota o
  left join pushq.last_usage(tenant) u on true
  where o.tenant_id = tenant;
  if max_calls is not null and not pushq.acts_for_all(pushq.caller()) then
    perform pushq.count_call(tenant, split_part(queue, '/', 1), max_calls);
  end if;
  -- No worker has counted for a while, so a producer counts. Only one does; the others use the last count. A read-only
  -- transaction adds nothing, and does not count.
  if is_stale and current_setting('transaction_read_only') = 'off' then
    perform pushq.count_usage(tenant, by_producer => true);
  end if;
end $$;

-- The time until which a statement surely sees what others have committed: now, or at repeatable read and serializable
-- the beginning of its transaction. A count in a transaction that lasts must not pass for a newer one than a worker has
-- made meanwhile. Nor is the last count that the transaction sees stale because it lasts.
create or replace function pushq.snapshot_time() returns timestamptz
language sql as $$
  select case when current_setting('transaction_isolation') like 'read %' then clock_timestamp() else now() end
$$;

-- The last count of what a tenant has. No row if nothing is counted for the tenant yet. A count that is dated more than
-- a minute ahead was written before the database's clock was set back: any other is newer.
create or replace function pushq.last_usage(tenant int) returns setof pushq.tenant_usage
language sql stable rows 1 as $$
  select u.*
  from pushq.tenant_usage u
  where u.tenant_id = $1
  order by coalesce(u.counted_at <= clock_timestamp() + interval '1 minute', false) desc,
           u.counted_at desc nulls last, u.by_producer
  limit 1
$$;

-- Raises the error for a call that would create pushes for a suspended tenant.
create or replace function pushq.refuse_suspended(who text, tenant text) returns void
language plpgsql stable as $$
begin
  perform pushq.refuse_moved(tenant, who, true);
  raise exception using errcode = 'PQ403', message = format('tenant “%s” is suspended', tenant),
    hint = format('an operator can resume it with: pushq-admin tenant resume %s', tenant);
end $$;

-- Counts a call, and refuses it if there were too many in the last second.
--
-- Calls are rows, so that no two of them wait for each other. If many calls are allowed, a row stands for several calls
-- and is written at random: about fifty rows are read and written a second, and the limit is kept within about a sixth.
-- Up to fifty calls a second the count is exact, except for calls that are not committed yet. A call in a read-only
-- transaction cannot be written: it is refused like the others, but does not count. Calls that are dated more than a
-- second ahead were made before the database's clock was set back, and do not count either. A standby can neither
-- write nor read these rows, because their table is unlogged: there, calls are not limited.
create or replace function pushq.count_call(tenant int, name text, most int) returns void
language plpgsql as $$
declare
  weight int         := pushq.call_weight(most);
  since  timestamptz := clock_timestamp() - interval '1 second';
begin
  if pg_is_in_recovery() then
    return;
  end if;
  perform
  from pushq.call c
  where c.tenant_id = tenant and c.called_at > since and c.called_at <= since + interval '2 seconds'
  offset most / weight - 1
  limit 1;
  if found then
    raise exception using errcode = 'PQ429',
      message = format('tenant “%s” has reached its limit of %s calls a second', name, most),
      hint = format(
        'repeat the call later; an operator can allow more with: pushq-admin tenant set %s --max-calls', name);
  -- Not `random()`: the caller can choose its numbers with `setseed`. This takes 1.5 µs.
  elsif weight = 1 or uuid_hash(gen_random_uuid()) % weight = 0 then
    if current_setting('transaction_read_only') = 'off' then
      insert into pushq.call (tenant_id) values (tenant);
    end if;
  end if;
end $$;

-- The number of calls that a row of `pushq.call` stands for.
create or replace function pushq.call_weight(most int) returns int
language plpgsql stable as $$ begin return greatest(1, most / 50); end $$;

-- Refuses a call that adds more than its tenant's quotas allow. `devices` are new, or become active again. `schedules`
-- are already added.
create or replace function pushq.check_quota(
  q int, recipients bigint default 0, bytes bigint default 0, devices bigint default 0, campaigns int default 0,
  schedules int default 0
) returns void
language plpgsql as $$
declare
  used    record;
  running bigint;                                         -- campaigns, or schedules
begin
  select t.id, t.name, u.waiting, u.devices, case when u.bytes_day = pushq.today() then u.bytes else 0 end as bytes,
         o.max_devices, o.max_waiting, o.max_day_bytes, o.max_campaigns,
         o.max_schedules
  into used
  from pushq.queue k
  join pushq.tenant t on t.id = k.tenant_id
  join pushq.tenant_quota o on o.tenant_id = t.id
  cross join pushq.last_usage(t.id) u
  where k.id = q;
  if not found then
    return;
  end if;

  if devices > 0 and used.devices + devices > used.max_devices then
    perform pushq.refuse_quota(
      used.name, 'devices', '--max-devices', used.max_devices, used.devices, devices,
      'unregister devices that are not needed: if nine in ten are used, a worker counts that within a minute, else an '
      'hour');
  elsif recipients > 0 and used.waiting + recipients > used.max_waiting then
    perform pushq.refuse_quota(
      used.name, 'waiting recipients', '--max-waiting', used.max_waiting, used.waiting, recipients,
      'wait until some of them have been sent to, or cancel what is not needed; the recipients of a campaign whose '
      'list was not loaded to its end count for a day, or until pushq.abandon_list');
  elsif bytes > 0 and used.bytes + bytes > used.max_day_bytes then
    perform pushq.refuse_quota(
      used.name, 'bytes of payload a day', '--max-day-bytes', used.max_day_bytes, used.bytes, bytes,
      'wait for the next day (UTC)');
  elsif campaigns > 0 and used.max_campaigns is not null then
    select count(*) into running
    from pushq.queue k
    join pushq.fan_out f on f.queue_id = k.id and not f.done
    where k.tenant_id = used.id;
    if running + campaigns > used.max_campaigns then
      perform pushq.refuse_quota(
        used.name, 'campaigns under way', '--max-campaigns', used.max_campaigns, running, campaigns,
        'wait until one has ended, or cancel it');
    end if;
  elsif schedules > 0 and used.max_schedules is not null then
    select count(*) into running
    from pushq.queue k
    join pushq.schedule s on s.queue_id = k.id
    where k.tenant_id = used.id;
    if running > used.max_schedules then
      perform pushq.refuse_quota(
        used.name, 'schedules', '--max-schedules', used.max_schedules, running - schedules, schedules,
        'remove one that is not needed');
    end if;
  end if;
end $$;

-- Raises the error for an exhausted quota.
create or replace function pushq.refuse_quota(
  tenant text, what text, option text, quota bigint, used bigint, added bigint, remedy text
) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'PQ507',
    message = format('tenant “%s” may have at most %s %s: it has %s, and this call would add %s', tenant, quota, what,
                     used, added),
    hint = format('%s; an operator can allow more with: pushq-admin tenant set %s %s', remedy, tenant, option);
end $$;

-- Counts a tenant's usage of what it has quotas for. With `anew`, and once an hour, all devices and bytes are counted;
-- otherwise only those with new ids are added: ids grow, whatever database a tenant comes from. So additions of a
-- transaction that lasts longer than the time between two counts are noticed within the hour. When little room for
-- devices is left, all are counted more often, because deactivated ones make room: every ten seconds, or after 30 µs
-- for each device if that is longer.
--
-- `by_producer`: counts into the producers' row, which stays locked until this producer commits. It continues from the
-- last count of either row.
--
-- It reads no more waiting jobs than the quota allows recipients. It uses only indexes: with statistics that are older
-- than each queue's newest rows, a scan of the whole table looks cheaper.
create or replace function pushq.count_usage(
  tenant int, anew boolean default false, by_producer boolean default false
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  quota   pushq.tenant_quota;
  used    pushq.tenant_usage;
  queues  int[]  := array(select k.id from pushq.queue k where k.tenant_id = tenant);
  is_day  boolean;
  is_all  boolean;                                        -- whether it may count all devices and bytes
  devices_anew boolean;
  seen    record;
begin
  select o.* into quota from pushq.tenant_quota o where o.tenant_id = tenant;
  -- If another session counts at this moment, its count serves this caller, too.
  perform from pushq.tenant_usage u
  where u.tenant_id = tenant and u.by_producer = count_usage.by_producer
  for no key update skip locked;
  if not found or quota.tenant_id is null then
    return;
  end if;
  select u.* into used from pushq.last_usage(tenant) u;
  -- A producer's call does not wait for a count of all devices, unless there has been none yet.
  is_all := not count_usage.by_producer or used.devices_counted_at is null;
  -- Not `now()`: in a transaction that began long ago, a count of this moment would look as if it were dated ahead.
  anew := is_all and (
    anew
    or coalesce(
         used.devices_counted_at not between clock_timestamp() - interval '1 hour'
                                         and clock_timestamp() + interval '1 minute', true));
  devices_anew := is_all and (
    anew
    or used.devices > quota.max_devices * 0.9
      and used.devices_counted_at < now() - greatest(interval '10 seconds', interval '30 microseconds' * used.devices));
  if quota.max_devices is not null then
    if devices_anew then
      used.devices := 0;
      used.devices_to := 0;
    end if;
    select coalesce(sum(d.active), 0) as active, max(d.last) as last into seen
    from unnest(queues) k
    cross join lateral (
      select count(*) filter (where d.active) as active, max(d.id) as last
      from pushq.device d
      where d.queue_id = k and d.id > used.devices_to) d;
    used.devices := used.devices + seen.active;
    used.devices_to := greatest(used.devices_to, seen.last);
  end if;

  if quota.max_day_bytes is not null then
    is_day := anew or used.bytes_day is distinct from pushq.today();
    if is_day then
      used.bytes_day := pushq.today();
      used.bytes := 0;
      used.bytes_to := 0;
    end if;
    -- Copies of older messages do not count.
    select coalesce(sum(m.bytes), 0) as bytes, max(m.last) as last into seen
    from unnest(queues) k
    cross join lateral (
      select sum(octet_length(m.payload::text)
                 + coalesce(octet_length(array_to_string(m.translations, '')), 0)) as bytes,
             max(m.id) as last
      from pushq.message m
      where m.day = used.bytes_day and m.queue_id = k and m.id > used.bytes_to
        and m.created_at >= used.bytes_day::timestamp at time zone 'UTC') m;
    used.bytes := used.bytes + seen.bytes;
    used.bytes_to := greatest(used.bytes_to, seen.last);
  end if;

  if quota.max_waiting is not null then
    used.waiting := (
      select coalesce(sum(pushq.waiting_recipients(j.recipient_count, j.outcomes)), 0)
      from (
        select j.recipient_count, j.outcomes
        from pushq.job j
        where j.queue_id = any (queues)
        limit quota.max_waiting + 1) j)
      + (
        select coalesce(sum(pushq.held_recipients(l.recipient_count, l.outcomes)), 0)
        from pushq.lease l
        where l.queue_id = any (queues))
      -- Tokens of lists that are in no job yet, and users, because users without a device are stored, too.
      + (
        select coalesce(
                 sum(greatest(
                   greatest(l.token_count, l.user_count) - coalesce(f.made + f.held_out + f.left_out, 0), 0))
                   filter (where f.done is not true), 0)
        from pushq.list l
        left join pushq.fan_out f on f.queue_id = l.queue_id and f.campaign_id = l.campaign_id and f.list_id = l.id
        where l.queue_id = any (queues) and not l.abandoned
          and case when l.campaign_id is null then true else not f.done end);
  end if;

  update pushq.tenant_usage u
  set counted_at = pushq.snapshot_time(), waiting = used.waiting, devices = used.devices, devices_to = used.devices_to,
      devices_counted_at = case when devices_anew then pushq.snapshot_time() else used.devices_counted_at end,
      bytes = used.bytes, bytes_day = used.bytes_day, bytes_to = used.bytes_to
  where u.tenant_id = tenant and u.by_producer = count_usage.by_producer;
end $$;

-- The tenants for which something is to be counted. It also deletes calls that no check needs any more.
create or replace function pushq.tenants_to_count() returns setof int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from pushq.call c
  where c.called_at < clock_timestamp() - interval '10 seconds'
    or c.called_at > clock_timestamp() + interval '10 seconds';
  insert into pushq.tenant_usage (tenant_id, by_producer)
  select o.tenant_id, w.by_producer
  from pushq.tenant_quota o
  cross join (values (false), (true)) w(by_producer)
  where not exists (
    select from pushq.tenant_usage u where u.tenant_id = o.tenant_id and u.by_producer = w.by_producer)
  on conflict do nothing;
  return query select o.tenant_id from pushq.tenant_quota o order by o.tenant_id;
end $$;
