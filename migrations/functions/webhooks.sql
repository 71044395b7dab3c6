-- Delivering reports about devices to the webhooks of tenants, in the order of their cursors (list_feedback.sql).
--
-- A try is a turn: a worker takes it for some time, and only the worker with the last turn may record the result. So if
-- two workers both believe that they have the turn, the earlier one changes nothing any more.

-- The part of a sealed text that names the master key that opens it.
create or replace function pushq.key_name(sealed bytea) returns bytea
language sql immutable as $$ select substring(sealed from 1 for 8) $$;

-- Takes the webhook that is due and has waited the longest, for the time `lease`, with up to `most` reports as its
-- message. No row if none is due. `keys` names the caller's master keys: a webhook whose secret they do not open is
-- left to other workers. Without `even_in_doubt`, webhooks are left for later that are in doubt: whose last try failed,
-- or whose receiver has never accepted a message.
--
-- A message that is sent again goes up to the same report, and so has the same id: if the answer was lost, the receiver
-- must be able to recognise it.
create or replace function pushq.take_webhook(
  lease interval, most int, keys bytea[], even_in_doubt boolean default true,
  out tenant_id int, out tenant text, out turn bigint, out url text, out sealed bytea, out former_sealed bytea,
  out first bigint, out last bigint, out message text, out failures int, out sent_at bigint, out in_doubt boolean)
returns setof record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  due pushq.webhook_progress;
begin
  loop
    select * into due
    from pushq.webhook_progress p
    where p.newest > p.cursor
      and (even_in_doubt or p.failures = 0 and p.delivered_at is not null)
      -- A pause after a failure is an hour at most, and else there is only a turn. A later time was written before the
      -- database's clock was set back.
      and (p.not_before <= clock_timestamp()
        or p.not_before > clock_timestamp() + case when p.failures > 0 then interval '61 minutes'
                                                   else lease + interval '1 minute' end)
      and not exists (
        select from pushq.tenant_move m
        where m.owner = p.tenant_id and (m.stage = 'stopping' or m.reports_held_until > clock_timestamp()))
      and exists (
        select from pushq.webhook w
        where w.tenant_id = p.tenant_id and pushq.key_name(w.sealed) = any (keys)
          and (w.former_until is null or w.former_until <= now() or pushq.key_name(w.former_sealed) = any (keys)))
    order by least(p.not_before, clock_timestamp())
    limit 1
    for update skip locked;
    exit when not found;
    select max(e.cursor), json_build_object(
             'type', 'feedback', 'timestamp', pushq.utc_text(max(e.listed_at)),
             'data', json_build_object(
               'tenant', t.name,
               'entries', json_agg(json_strip_nulls(json_build_object(
                 'cursor', e.cursor::text, 'queue', e.queue, 'verdict', e.verdict, 'reason', e.reason,
                 'reported_at', pushq.utc_text(e.reported_at), 'recorded_at', pushq.utc_text(e.recorded_at),
                 'listed_at', pushq.utc_text(e.listed_at), 'token', e.token, 'user_key', e.user_key,
                 'device', e.device_id::text, 'root', e.root_id::text, 'campaign', e.campaign_key,
                 'apns_id', e.apns_id)) order by e.cursor)))::text,
           w.url, w.sealed, case when w.former_until > now() then w.former_sealed end, t.name
    into last, message, url, sealed, former_sealed, tenant
    from pushq.tenant t
    join pushq.webhook w on w.tenant_id = t.id
    cross join lateral pushq.webhook_entries(t.id, due.cursor, coalesce(due.batch_to, due.newest), most) e
    where t.id = due.tenant_id
    group by w.tenant_id, t.id;
    if not found then
      -- The reports are gone: their app was removed, or they are past retention.
      update pushq.webhook_progress p
      set cursor = coalesce(due.batch_to, due.newest), batch_to = null
      where p.tenant_id = due.tenant_id;
      continue;
    end if;
    -- The message keeps its id, even if its last report has been deleted meanwhile.
    last := coalesce(due.batch_to, last);
    update pushq.webhook_progress p
    -- A new number from `pushq.id`, so that it differs from those of a webhook that was removed and set again.
    set turn = nextval('pushq.id'), not_before = clock_timestamp() + lease, taken_until = clock_timestamp() + lease,
        batch_to = last
    where p.tenant_id = due.tenant_id
    returning p.tenant_id, p.turn into tenant_id, turn;
    first := due.cursor;
    failures := due.failures;
    in_doubt := due.failures > 0 or due.delivered_at is null;
    -- If it were rounded up, the receiver would see a time in the future.
    sent_at := floor(extract(epoch from clock_timestamp()));
    return next;
    return;
  end loop;
end $$;

-- Notes which webhooks will never get reports of a day that is past retention: `from_table` is the day's, and `queues`
-- are those whose reports are deleted from it; null: all.
create or replace function pushq.note_lost_reports(from_table text, queues int[] default null) returns void
language plpgsql set enable_seqscan = off as $$
begin
  if not exists (select from pushq.webhook_progress p where p.newest > p.cursor) then
    return;
  end if;
  execute format(
    'update pushq.webhook_progress p
     set lost_to = greatest(p.lost_to, l.listed_at)
     from (
       select w.tenant_id, max(r.listed_at) as listed_at
       from pushq.webhook_progress w
       join pushq.queue k on k.tenant_id = w.tenant_id and ($1::int[] is null or k.id = any ($1))
       cross join lateral (
         select f.listed_at
         from pushq.%I f
         where f.queue_id = k.id and f.cursor > w.cursor
         order by f.cursor desc
         limit 1) r
       where w.newest > w.cursor
       group by w.tenant_id) l
     where p.tenant_id = l.tenant_id', from_table)
  using queues;
end $$;

-- Up to `most` reports of all queues of a tenant after the cursor `after` and up to `upto`, in order of their cursors.
create or replace function pushq.webhook_entries(tenant int, after bigint, upto bigint, most int)
returns table (cursor bigint, queue text, verdict text, reason text, reported_at timestamptz, recorded_at timestamptz,
               listed_at timestamptz, token text, user_key text, device_id bigint, root_id bigint, campaign_key text,
               apns_id uuid)
language sql stable as $$
  select f.cursor, n.name, f.verdict, r.reason, f.reported_at, f.recorded_at, f.listed_at, encode(d.token, 'hex'),
         d.user_key, f.device_id, f.root_id, c.key, pushq.apns_id(f.root_id, f.device_id)
  from (
    select f.*
    from pushq.queue q
    cross join lateral (
      select f.*
      from pushq.feedback f
      where f.queue_id = q.id and f.cursor is not null and f.cursor > after and f.cursor <= upto
      order by f.cursor
      limit most) f
    where q.tenant_id = tenant
    order by f.cursor
    limit most) f
  join pushq.queue_name n on n.queue_id = f.queue_id
  cross join lateral pushq.reason(f.reason) r
  left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
  left join pushq.campaign c on c.queue_id = f.queue_id and c.id = f.root_id
$$;

-- Records that the receiver accepted the message of this turn, which goes up to the report `upto`. `written` is false
-- if another turn has begun, or the webhook is gone. `had_failed`: whether the tries before it had failed.
create or replace function pushq.webhook_accepted(tenant int, turn bigint, upto bigint, out written boolean,
                                                  out had_failed boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  select p.failures > 0 into had_failed
  from pushq.webhook_progress p
  where p.tenant_id = tenant and p.turn = webhook_accepted.turn
  for update;
  written := found;
  if written then
    update pushq.webhook_progress p
    set cursor = upto, batch_to = null, taken_until = null, not_before = clock_timestamp(), failures = 0,
        failing_since = null, problem = null, delivered_at = clock_timestamp()
    where p.tenant_id = tenant;
  end if;
end $$;

-- Records that the message of this turn was not accepted; the next try comes after `pause`. If the webhook was set
-- again since the turn began, with `known` failures before it, the next try comes at once. Returns the number of
-- failures in a row; null if another turn has begun, or the webhook is gone.
create or replace function pushq.webhook_failed(tenant int, turn bigint, known int, problem text, pause interval)
returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update pushq.webhook_progress p
  set failures = p.failures + 1, failing_since = coalesce(p.failing_since, clock_timestamp()),
      problem = left($4, 500), taken_until = null,
      not_before = clock_timestamp() + case when p.failures < known then interval '0' else pause end
  where p.tenant_id = $1 and p.turn = $2
  returning p.failures
$$;

-- Sets the URL for a tenant's reports. Reports that were listed before are not sent; if the tenant already has a
-- webhook, the new one continues at its cursor, and earlier failures are forgotten. A message that is being sent to the
-- same URL is not sent a second time, unless that fails. A receiver at another URL has never accepted a message yet.
--
-- Null leaves a value unchanged. With a new secret, messages are also signed with the former one, for the time
-- `former_for`. If there is already a former secret whose time has not ended, that one stays, for at least its time:
-- after two changes in a row, the receiver most probably does not have the first new secret yet.
create or replace function pushq.set_webhook(tenant int, url text, sealed bytea, former_for interval) returns void
language plpgsql as $$
declare
  former   text;
  is_same  boolean;                                       -- whether the URL stays
  is_tried boolean;                                       -- whether a worker is trying the same URL
begin
  perform from pushq.tenant t where t.id = tenant for key share;
  if not found then
    raise exception using errcode = 'PQ404', message = 'the tenant was removed meanwhile',
      hint = 'list tenants with: pushq-admin tenant list';
  end if;
  -- A step of listing that has begun would not see the new row, so this waits for its end.
  perform from pushq.duty d where d.name = 'listing' for update;
  select w.url into former from pushq.webhook w where w.tenant_id = tenant for update;
  is_same := former = coalesce(set_webhook.url, former);
  update pushq.webhook w
  set url = coalesce(set_webhook.url, w.url),
      former_sealed = case when set_webhook.sealed is null then w.former_sealed
                           when former_for > interval '0' and w.former_until > now() then w.former_sealed
                           when former_for > interval '0' then w.sealed end,
      former_until = case when set_webhook.sealed is null then w.former_until
                          when former_for > interval '0' and w.former_until > now()
                            then greatest(w.former_until, now() + former_for)
                          when former_for > interval '0' then now() + former_for end,
      sealed = coalesce(set_webhook.sealed, w.sealed)
  where w.tenant_id = tenant;
  if not found then
    insert into pushq.webhook (tenant_id, url, sealed) values (tenant, set_webhook.url, set_webhook.sealed);
  end if;
  select p.taken_until between clock_timestamp() and clock_timestamp() + interval '1 minute' and is_same
  into is_tried
  from pushq.webhook_progress p
  where p.tenant_id = tenant
  for update;
  insert into pushq.webhook_progress (tenant_id, cursor, newest)
  select tenant, c.cursor, c.cursor
  from (
    select coalesce(max(l.cursor), 0) as cursor
    from pushq.queue q
    cross join lateral (
      select f.cursor
      from pushq.feedback f
      where f.queue_id = q.id and f.cursor is not null
      order by f.cursor desc
      limit 1) l
    where q.tenant_id = tenant) c
  -- The next try is due at once, and a try at another URL that is being made no longer counts.
  on conflict on constraint webhook_progress_pkey do update
    set turn = case when is_tried then webhook_progress.turn else nextval('pushq.id') end,
        not_before = case when is_tried then webhook_progress.not_before else clock_timestamp() end,
        failures = 0, failing_since = null, problem = null,
        -- Whoever sets the URL, also to what it was, has dealt with the loss. Who only changes the secret may not know
        -- of it.
        lost_to = case when set_webhook.url is null then webhook_progress.lost_to end,
        delivered_at = case when is_same then webhook_progress.delivered_at end;
end $$;
