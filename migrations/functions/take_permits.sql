-- Takes permits from rate limits (GCRA). A permit is taken from every limit that applies to it, or from none.
--
-- A *line* asks for permits of a tenant, of a queue or of a campaign. Each of its permits is one of that limit and one
-- of every limit around it. So a worker can send with every permit that it gets: no worker holds a queue's permits
-- while another holds its tenant's. A line is missing in the answer if another transaction has locked one of its limits
-- at this moment: no caller waits. A line without a limit is missing, too, except that of a campaign, whose `rate` is
-- then null. If the queue is removed, the campaign's line is missing, so that workers stop sending what they hold.
--
-- `wanted` and `held`: the permits that the caller can use, and those that it has not used yet. `shares`: the weight of
-- a line among the caller's lines of the same tenant; the heaviest has 1. It counts where the tenant has a limit: the
-- lines of one queue have the same weight. `horizon`: how far ahead permits may lie. `lateness`: how much later than
-- its time a permit of one limit may be used; half of that for a permit of several limits. This time is subtracted from
-- the burst, so that no second exceeds the rate and the burst together. A burst below `lateness` counts as `lateness`.
--
-- For each line it returns how many permits it granted. The first is `starts_in` microseconds from now (below zero by
-- as much as the burst allows), and the others follow at `rate`. It also returns for how many microseconds after its
-- time each permit may be used, and after how many it is worth asking again. `granted_at` is that present moment: an
-- answer may come late, and a caller may stand still.
--
-- Times are in seconds since `base`, which is `moment` or else the server's time once all limits are locked. (Another
-- caller may have locked them just before, and granted permits up to its own horizon. To a caller that went by an
-- earlier time, these would look as if the clock had been set back, and it would grant them again.) The bounds and
-- their reasons:
-- - `x_slack` is how far the time by limit x may lie before the time at which the permit may be used. With `late` it
--   makes up the burst. A limit for which no worker has asked for a while goes back by no more than that.
-- - If the inner limit is the later one, the permit takes a time of the outer limit at which others of the tenant could
--   send. So it is not taken before the outer limit itself has come within `x_slack` of it.
-- - If the outer limit is the later one, because others have taken its next permits, no other line could use the inner
--   limit's time, and it moves on.
-- - A line gets at most four times what it leaves of the outermost limit (`SharedRoom` in QueueCore says why), so
--   that the next worker and the other queues of the tenant find something, too. Of inner limits it gets all that is
--   available: to keep up with an outer one, they have to be granted as far ahead.
create or replace function pushq.take_permits(
  tenants int[], queues int[], campaigns bigint[], wanted int[], held int[], shares float8[], horizon interval,
  lateness interval, moment timestamptz default null
) returns table (tenant_id int, queue_id int, campaign_id bigint, granted int, rate float8, starts_in bigint,
                 late bigint, again_in bigint, granted_at timestamptz)
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  began    timestamptz := coalesce(moment, clock_timestamp());
  base     timestamptz;
  -- The time from `began` to `base`.
  waited   float8;
  ahead    float8      := extract(epoch from horizon);
  grace    float8      := extract(epoch from lateness);
  l        record;
  -- The state of the current tenant and queue, after the permits granted so far.
  tenant   int;
  queue    int;
  t_tat    float8;
  q_tat    float8;
  -- The current line.
  c_tat    float8;
  is_joint boolean;
  usable   float8;
  t_slack  float8;
  q_slack  float8;
  c_slack  float8;
  t_start  float8;
  q_start  float8;
  c_start  float8;
  start    float8;
  slowest  float8;
  inner_rate float8;
  lead     float8;
  n        float8;
  -- The new state, to be written.
  of_tenants   int[]    := '{}';
  of_queues    int[]    := '{}';
  of_campaigns bigint[] := '{}';
  tats         float8[] := '{}';
begin
  perform pushq.fit_plans();
  for l in
    with line as materialized (
      select *
      from unnest(tenants, queues, campaigns, wanted, held, shares) as u(tenant, queue, campaign, wanted, held, share)),
    -- The order is random: if there is one permit for many lines, each gets it now and then.
    turn as materialized (
      select tenant, queue, random() as place from line group by tenant, queue),
    key as materialized (
      select tenant, 0 as queue, 0::bigint as campaign from line
      union select tenant, queue, 0 from line
      union select tenant, queue, campaign from line),
    -- Lateral with a limit, so that each limit is found by its key. An operator who is changing a limit may have locked
    -- it, or another worker for a moment: then `rate` is null.
    lim as materialized (
      select k.tenant, k.queue, k.campaign, x.rate, x.burst, extract(epoch from x.tat - began)::float8 as tat
      from key k
      cross join lateral (
        select from pushq.rate_limit r
        where r.tenant_id = k.tenant and r.queue_id = k.queue and r.campaign_id = k.campaign
        limit 1) known
      left join lateral (
        select r.rate, r.burst, r.tat
        from pushq.rate_limit r
        where r.tenant_id = k.tenant and r.queue_id = k.queue and r.campaign_id = k.campaign
        limit 1
        for no key update skip locked) x on true)
    select line.*,
           t.rate as t_rate, t.burst as t_burst, t.tat as t_tat,
           q.rate as q_rate, q.burst as q_burst, q.tat as q_tat,
           c.rate as c_rate, c.burst as c_burst, c.tat as c_tat
    from line
    join turn using (tenant, queue)
    left join lim t on t.tenant = line.tenant and t.queue = 0
    left join lim q on q.tenant = line.tenant and q.queue = line.queue and q.campaign = 0 and line.queue <> 0
    left join lim c
      on c.tenant = line.tenant and c.queue = line.queue and c.campaign = line.campaign and line.campaign <> 0
    where (t.tenant is null or t.rate is not null) and (q.tenant is null or q.rate is not null)
      and (c.tenant is null or c.rate is not null)
      and (coalesce(t.rate, q.rate, c.rate) is not null
           or line.campaign <> 0 and exists (select from pushq.queue p where p.id = line.queue))
    order by line.tenant, turn.place, random()
  loop
    -- The lines are sorted, so all limits were locked before the first of them came.
    if base is null then
      base := coalesce(moment, clock_timestamp());
      waited := extract(epoch from base - began);
    end if;
    if l.tenant is distinct from tenant then
      tenant := l.tenant;
      queue := null;
      t_tat := l.t_tat - waited;
    end if;
    if l.queue is distinct from queue then
      queue := l.queue;
      q_tat := l.q_tat - waited;
    end if;
    c_tat := l.c_tat - waited;
    granted_at := base;

    if coalesce(l.t_rate, l.q_rate, l.c_rate) is null then
      tenant_id := l.tenant;
      queue_id := l.queue;
      campaign_id := l.campaign;
      granted := 0;
      rate := null;
      starts_in := 0;
      late := 0;
      again_in := 0;
      return next;
      continue;
    end if;
    is_joint := num_nonnulls(l.t_rate, l.q_rate, l.c_rate) > 1;
    usable := case when is_joint then grace / 2 else grace end;
    -- The part of the slack that is reserved for differences between the times of several limits.
    lead := case when is_joint then grace / 4 else 0 end;
    t_slack := greatest((l.t_burst - 1) / l.t_rate, grace) - usable;
    q_slack := greatest((l.q_burst - 1) / l.q_rate, grace) - usable;
    c_slack := greatest((l.c_burst - 1) / l.c_rate, grace) - usable;
    -- No permit was ever granted beyond the horizon: a time beyond it is from before the clock was set back, or of
    -- another rate. Null means no limit, and `least` and `greatest` ignore it.
    t_start := null;
    q_start := null;
    c_start := null;
    if l.t_rate is not null then
      t_start := greatest(least(t_tat, ahead + 1 / l.t_rate), lead - t_slack);
    end if;
    if l.q_rate is not null then
      q_start := greatest(least(q_tat, ahead + 1 / l.q_rate), lead - q_slack, t_start - q_slack);
    end if;
    start := greatest(t_start, q_start);
    if l.c_rate is not null then
      c_start := greatest(least(c_tat, ahead + 1 / l.c_rate), lead - c_slack, start - c_slack);
    end if;
    start := greatest(start, c_start);
    slowest := least(l.t_rate, l.q_rate, l.c_rate);

    -- The permits due by the horizon, including the one at `start`.
    n := least(l.wanted, floor((ahead - start) * slowest) + 1);
    if l.t_rate is not null then
      n := least(n, pushq.permits_of_room(floor((ahead - t_start) * l.t_rate) + 1, l.held, l.share));
      inner_rate := least(l.q_rate, l.c_rate);
      if start > t_start + t_slack + 1e-9 then
        n := 0;
      elsif inner_rate = slowest and inner_rate < l.t_rate then
        n := least(n, floor((t_start + t_slack - start + 1e-9) / (1 / slowest - 1 / l.t_rate)) + 1);
      end if;
    end if;
    if l.q_rate is not null then
      n := least(n, case when l.t_rate is null
                         then pushq.permits_of_room(floor((ahead - q_start) * l.q_rate) + 1, l.held, 1)
                         else floor((ahead - q_start) * l.q_rate) + 1 end);
      if start > q_start + q_slack + 1e-9 then
        n := 0;
      elsif l.c_rate = slowest and l.c_rate < l.q_rate then
        n := least(n, floor((q_start + q_slack - start + 1e-9) / (1 / slowest - 1 / l.q_rate)) + 1);
      end if;
    end if;
    if l.c_rate is not null then
      n := least(n, case when is_joint then floor((ahead - c_start) * l.c_rate) + 1
                         else pushq.permits_of_room(floor((ahead - c_start) * l.c_rate) + 1, l.held, 1) end);
    end if;
    n := greatest(n, 0);

    -- A time beyond the horizon is reset even if nothing is granted.
    if n > 0 or t_tat > t_start or q_tat > q_start or c_tat > c_start then
      if l.t_rate is not null then
        t_tat := case when n > 0 then t_start + n / l.t_rate else least(t_tat, t_start) end;
        of_tenants := of_tenants || l.tenant;
        of_queues := of_queues || 0;
        of_campaigns := of_campaigns || 0::bigint;
        tats := tats || t_tat;
      end if;
      if l.q_rate is not null then
        -- The last permit's time by an inner limit lies no further before its use than the first permit's.
        q_tat := case when n > 0
                      then greatest(q_start + n / l.q_rate, start + (n - 1) / slowest - q_slack + 1 / l.q_rate)
                      else least(q_tat, q_start) end;
        of_tenants := of_tenants || l.tenant;
        of_queues := of_queues || l.queue;
        of_campaigns := of_campaigns || 0::bigint;
        tats := tats || q_tat;
      end if;
      if l.c_rate is not null then
        of_tenants := of_tenants || l.tenant;
        of_queues := of_queues || l.queue;
        of_campaigns := of_campaigns || l.campaign;
        tats := tats || case when n > 0
                             then greatest(c_start + n / l.c_rate, start + (n - 1) / slowest - c_slack + 1 / l.c_rate)
                             else least(c_tat, c_start) end;
      end if;
    end if;

    -- Permits of several limits are worth asking for when the outer limit reaches them, because other lines move it on.
    -- The steps are small, so that the inner limits can follow.
    lead := case when is_joint
                 then greatest(lead, case when l.q_rate is not null or l.c_rate is not null then t_tat end,
                               case when l.c_rate is not null then q_tat end)
                 when l.t_rate is not null then ahead * 9 / 10
                 else ahead / 2 end;
    tenant_id := l.tenant;
    queue_id := l.queue;
    campaign_id := l.campaign;
    granted := n;
    rate := slowest;
    starts_in := start * 1000000;
    late := usable * 1000000;
    again_in :=
      greatest(start + n / slowest - lead, case when n = l.wanted then ahead / 50 else ahead / 10 end) * 1000000;
    return next;
  end loop;
  for l in
    select u.tenant, u.queue, u.campaign, max(u.tat) as tat
    from unnest(of_tenants, of_queues, of_campaigns, tats) as u(tenant, queue, campaign, tat)
    group by u.tenant, u.queue, u.campaign
  loop
    update pushq.rate_limit r
    set tat = base + l.tat * interval '1 second'
    where r.tenant_id = l.tenant and r.queue_id = l.queue and r.campaign_id = l.campaign;
  end loop;
end $$;

-- How many of `free` permits a line that holds `held` may take: as many as make its total four times what is left
-- afterwards, or less by its `share`. A line that holds none gets at least one.
create or replace function pushq.permits_of_room(free float8, held int, share float8) returns float8
language sql stable as $$
  select case when free < 1 then 0
              else least(free, greatest(floor((4 * share * free - held) / (1 + 4 * share)),
                                        case when held = 0 then 1 else 0 end)) end
$$;
