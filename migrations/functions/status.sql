-- The progress of a send or a campaign, by the number that its start returned. No row if this queue has none with that
-- number, or if it is not kept any more. A broadcast is a send to its channel.
--
-- `state`: 'waiting' while the recipients of a send are not known, 'scheduled' before a campaign begins, 'running',
-- 'paused', 'cancelled' or 'finished', which means that every recipient has an outcome. `in_quiet_hours` is how many of
-- the waiting recipients wait for the end of their quiet hours. `why_nobody` says why a send, or a finished campaign,
-- has no recipient.
create or replace function pushq.status(queue text, id bigint)
returns table (kind text, state text, total bigint, waiting bigint, delivered bigint, rejected bigint, failed bigint,
               suppressed bigint, expired bigint, cancelled bigint, unknown bigint, retried bigint, why_nobody text,
               in_quiet_hours bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  q int := (pushq.enter(queue, sends => false)).q;
  s record;
begin
  return query
  select 'campaign',
         c.state, c.total, c.waiting, c.delivered, c.rejected, c.failed, c.suppressed, c.expired, c.cancelled,
         c.unknown, c.retried,
         case when c.finished and c.total = 0 then pushq.why_campaign_reached_nobody(q, c.campaign_id) end,
         (pushq.quiet_recipients(q, status.id)).recipients
  from pushq.campaign_progress c
  where c.queue_id = q and c.campaign_id = status.id;
  if found then
    return;
  end if;

  select * into s from pushq.send_progress(q, status.id);
  if s.total = 0 and s.why_nobody is null and not s.awaits_recipients then
    return;
  end if;
  return query
  select 'send',
         case when s.is_cancelled then 'cancelled' when s.awaits_recipients then 'waiting'
              when s.waiting = 0 then 'finished' else 'running' end,
         s.total, s.waiting, s.delivered, s.rejected, s.failed, s.suppressed, s.expired, s.cancelled, s.unknown,
         s.retried, s.why_nobody,
         (pushq.quiet_recipients(q, status.id)).recipients;
end $$;

-- Why a finished campaign has no recipients, in words.
create or replace function pushq.why_campaign_reached_nobody(q int, campaign bigint) returns text
language sql stable as $$
  select case when c.cancelled_at is not null then 'it was cancelled before it had recipients'
              when f.left_out > 0 then format('the local time leaves out all %s devices', f.left_out)
              when f.held_out > 0 then format('all %s devices are in the holdout', f.held_out)
              when f.list_id is not null then 'its list has no device'
              when m.id is null then 'no device matched when it began; its message is no longer kept'
              else pushq.why_nobody_matches(q, pushq.message_kind(m.push_type, m.payload), c.filter_tree) end
  from pushq.campaign c
  join pushq.fan_out f on f.queue_id = c.queue_id and f.campaign_id = c.id
  left join pushq.message m on m.day = f.message_day and m.queue_id = c.queue_id and m.id = f.message_id
  where c.queue_id = q and c.id = why_campaign_reached_nobody.campaign
$$;
