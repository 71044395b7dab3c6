-- What a campaign would be, if it were started now. Writes nothing.

-- `tokens`: of the list that it would be for; `filter`: which devices it would be for; without both: all active ones.
-- `problems` say in words why nothing, or not everything, would be sent now. `rate` is what the queue's limits allow,
-- in pushes per second; `speed` what the queue's last campaign came to. `push_type` is 'liveactivity-start' for one
-- that starts Live Activities.
create or replace function pushq.preview_campaign(
  queue text, key text, push_type text default 'alert', tokens bytea[] default null,
  filter text default null,
  out recipients bigint, out inactive bigint, out unknown bigint, out topic text, out credential text,
  out credential_expires_at timestamptz, out rate float8, out speed float8, out problems text[]
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  this    int := (pushq.enter(queue, sends => false)).q;
  aim     text := case when push_type = 'liveactivity-start' then push_type
                       else pushq.message_kind(push_type, null) end;
  q       pushq.queue;
  c       pushq.credential;
  earlier pushq.campaign;
  name    pushq.queue_name;
begin
  problems := '{}';
  select * into q from pushq.queue x where x.id = this;
  select * into name from pushq.queue_name n where n.queue_id = q.id;
  select * into c from pushq.credential x where x.tenant_id = q.tenant_id and x.id = q.credential_id;
  topic := name.app;

  -- The audience, as `pushq.fan_out_step` makes jobs of it. An inactive device on a list is a recipient, too:
  -- suppressed.
  if tokens is not null and filter is not null then
    raise exception using errcode = 'PQ400', message = 'a campaign has a list of tokens or a filter, not both';
  elsif filter is not null then
    select n.recipients, n.inactive, 0 into recipients, inactive, unknown
    from pushq.count_filtered(q.id, aim, pushq.with_audiences(pushq.parse_filter(filter), q.id), now()) n;
  elsif tokens is null then
    select count(*) filter (where d.active), count(*) filter (where not d.active), 0
    into recipients, inactive, unknown
    from pushq.device d
    where d.queue_id = q.id and coalesce(d.kind, 'alert') = aim;
  else
    select count(*), count(*) filter (where not d.active), count(*) filter (where d.id is null)
    into recipients, inactive, unknown
    from (select distinct t from unnest(tokens) t) t
    left join pushq.device d on d.queue_id = q.id and d.token = t.t;
  end if;
  if recipients = 0 then
    problems := problems || 'nobody is in the audience'::text;
  end if;

  select * into earlier from pushq.campaign k where k.queue_id = q.id and k.key = preview_campaign.key;
  if found then
    problems := problems || format('key “%s” is that of a campaign of %s: nothing would be sent again', key,
                                   earlier.created_at::timestamptz(0));
  end if;
  if c.id is null then
    problems := problems || 'the queue has no credential; add one with: pushq-admin credential add'::text;
  else
    credential := c.name;
    credential_expires_at := c.not_after;
    if c.not_after <= now() then
      problems := problems || format('certificate “%s” expired at %s', c.name, c.not_after::timestamptz(0));
    end if;
    if not q.environment = any (c.environments) then
      problems := problems || format('credential “%s” is not for environment %s', c.name, q.environment);
    end if;
    if cardinality(c.topics) > 0 and not topic = any (c.topics) then
      problems := problems || format('credential “%s” is not for topic %s', c.name, topic);
    end if;
  end if;
  if q.paused_at is not null then
    problems := problems || format('the queue is paused: %s', q.paused_reason);
  end if;
  if name.suspended_at is not null then
    problems := problems || format('tenant “%s” is suspended', name.tenant);
  end if;

  select min(r.rate) into rate
  from pushq.rate_limit r
  where r.tenant_id = q.tenant_id and r.queue_id in (0, q.id) and r.campaign_id = 0;
  select p.total / extract(epoch from ended.at - ended.began) into speed
  from (select x.campaign_id, x.total
        from pushq.campaign_progress x
        where x.queue_id = q.id and x.finished and x.total > 1000 and x.cancelled_at is null
        order by x.campaign_id desc
        limit 1) p
  cross join lateral (
    select max(r.ended_at) as at, (select f.start_at from pushq.fan_out f
                                   where f.queue_id = q.id and f.campaign_id = p.campaign_id) as began
    from pushq.result r
    where r.queue_id = q.id and r.root_id = p.campaign_id) ended
  where ended.at > ended.began;
end $$;
