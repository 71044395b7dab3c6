-- The rate of a campaign: checking it, and setting it at the start or later.

-- Refuses an invalid rate of a campaign.
create or replace function pushq.check_max_rate(max_rate float8) returns void
language plpgsql stable as $$
begin
  if not coalesce(max_rate between 0.0001 and 1000000, true) then
    raise exception using errcode = 'PQ400',
      message = format('max_rate %s is not between 0.0001 and 1000000', max_rate),
      hint = 'give it in pushes per second';
  end if;
end $$;

-- Sets the rate of a campaign, in pushes a second over all workers; null removes it. With its first rate, a campaign
-- gets its own lane, and keeps it. Jobs that workers hold follow once these workers are told (`pushq.tell`).
create or replace function pushq.limit_campaign(q int, campaign bigint, max_rate float8) returns void
language plpgsql as $$
declare
  own int;
begin
  if max_rate is null then
    delete from pushq.rate_limit r
    using pushq.queue u
    where u.id = q and r.tenant_id = u.tenant_id and r.queue_id = q and r.campaign_id = campaign;
    return;
  end if;
  perform pushq.check_max_rate(max_rate);
  -- The burst is the permits of a tenth of a second, as for queues.
  insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst)
  select u.tenant_id, q, campaign, max_rate, greatest(1, ceil(max_rate / 10))
  from pushq.queue u
  where u.id = q
  on conflict on constraint rate_limit_pkey do update set rate = excluded.rate, burst = excluded.burst;
  update pushq.fan_out o
  set lane = pushq.free_lane(q) * 3 + o.lane
  where o.queue_id = q and o.campaign_id = campaign and o.lane <= 2
  returning o.lane into own;
  if own is not null then
    update pushq.job j set lane = own
    where j.queue_id = q and j.lane = own % 3 and j.campaign_id = campaign;
  end if;
end $$;

-- A third of the number of a lane that no campaign of the queue uses.
create or replace function pushq.free_lane(q int) returns int
language plpgsql as $$
declare
  own int;
begin
  loop
    own := nextval('pushq.lane');
    exit when not exists (
      select from pushq.fan_out o where o.queue_id = q and o.lane > 2 and o.lane between own * 3 and own * 3 + 2);
  end loop;
  return own;
end $$;

-- Sets the rate of a campaign while it runs; null removes it. Workers follow within moments. Returns false for a
-- campaign that has ended, unless it has failed recipients: these can be retried, at this rate.
create or replace function pushq.set_campaign_rate(queue text, key text, max_rate float8) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
  c pushq.campaign;
begin
  -- The campaign before its fan-out, as others who change both do.
  select * into c from pushq.campaign k where k.queue_id = q and k.key = $2 for no key update;
  if c.id is null then
    perform pushq.refuse_campaign(queue, key);
  elsif c.cancelled_at is not null then
    raise exception using errcode = 'PQ409', message = format('campaign “%s” was cancelled', pushq.shown(key, 200)),
      hint = 'start another one under a new key';
  end if;
  perform pushq.check_max_rate(max_rate);
  if not pushq.is_under_way(q, c.id) and not pushq.has_kept_failures(q, c.id) then
    return false;
  end if;
  perform pushq.limit_campaign(q, c.id, max_rate);
  perform pushq.tell('root', c.id);
  perform pushq.wake(q);
  return true;
end $$;
