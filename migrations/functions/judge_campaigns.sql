-- Judging campaigns: one that has too many bad answers is paused.

-- The number of a campaign's recipients that were answered, and how many of these answers are bad, that is, not a
-- device's fault (`campaign_tally.bad`).
create or replace function pushq.campaign_answers(q int, campaign bigint, out answers bigint, out bad bigint)
language sql stable as $$
  select coalesce(sum(t.delivered + t.rejected + t.failed), 0), coalesce(sum(t.bad), 0)
  from pushq.campaign_tally t
  where t.queue_id = q and t.campaign_id = campaign
$$;

-- Says in words that the share of a campaign's bad answers is too large, once it has a hundred answers; otherwise null.
create or replace function pushq.too_many_bad(c pushq.campaign) returns text
language plpgsql stable as $$
declare
  a record;
begin
  select n.answers - c.forgiven as answers, n.bad - c.forgiven_bad as bad into a
  from pushq.campaign_answers(c.queue_id, c.id) n;
  if a.answers >= 100 and a.bad > a.answers * c.stop_at_errors::numeric then
    return format('%s of %s answers were bad, which is more than %s %%', a.bad, a.answers,
                  trim_scale(c.stop_at_errors::numeric * 100));
  end if;
  return null;
end $$;

-- Pauses the campaigns among these whose share of bad answers is too large, once they have a hundred answers. Returns
-- the reason for each campaign that it paused. It skips campaigns that another transaction is changing, and those that
-- have ended: nothing could be resumed.
create or replace function pushq.judge_campaigns(queues int[], campaigns bigint[])
returns table (queue_id int, key text, reason text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  c pushq.campaign;
begin
  for c in
    select k.*
    from unnest(queues, campaigns) as g(queue_id, campaign_id)
    join pushq.campaign k on k.queue_id = g.queue_id and k.id = g.campaign_id
    join pushq.fan_out f on f.queue_id = k.queue_id and f.campaign_id = k.id
    where k.stop_at_errors is not null and k.paused_at is null and k.cancelled_at is null
      and pushq.is_under_way(k.queue_id, k.id)
    for no key update of k, f skip locked
  loop
    queue_id := c.queue_id;
    key := c.key;
    reason := pushq.too_many_bad(c);
    continue when reason is null;
    update pushq.campaign k
    set paused_at = now(), paused_reason = reason
    where k.queue_id = c.queue_id and k.id = c.id;
    update pushq.fan_out f set paused = true where f.queue_id = c.queue_id and f.campaign_id = c.id;
    perform pushq.tell('root', c.id);
    return next;
  end loop;
end $$;
