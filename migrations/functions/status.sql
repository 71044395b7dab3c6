-- What has become of a send or a campaign so far, by the number that its start gave. No row if there is none in this
-- queue, or if it is not kept any more. A broadcast is a send to its channel.
--
-- `state`: 'waiting' while nobody knows the recipients, 'running', 'paused', 'cancelled' or 'finished', which is that
-- every recipient has an outcome. `in_quiet_hours` of those that wait do so until their quiet hours end. `why_nobody`
-- says why a send has no recipient.
create or replace function pushq.status(queue text, id bigint)
returns table (kind text, state text, total bigint, waiting bigint, delivered bigint, rejected bigint, failed bigint,
               suppressed bigint, expired bigint, cancelled bigint, unknown bigint, retried bigint, why_nobody text,
               in_quiet_hours bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     int := (pushq.enter(queue, sends => false)).q;
  s     record;
  ended bigint;
begin
  return query
  select 'campaign',
         case when c.cancelled_at is not null then 'cancelled' when c.finished then 'finished'
              when c.paused_at is not null then 'paused' else 'running' end,
         c.total, c.waiting, c.delivered, c.rejected, c.failed, c.suppressed, c.expired, c.cancelled, c.unknown,
         c.retried, null::text, (pushq.quiet_recipients(q, status.id)).recipients
  from pushq.campaign_progress c
  where c.queue_id = q and c.campaign_id = status.id;
  if found then
    return;
  end if;

  select * into s from pushq.show_send(queue, status.id);
  ended := s.delivered + s.rejected + s.failed + s.suppressed + s.expired + s.cancelled + s.unknown;
  if s.total = 0 and ended = 0 and s.why_nobody is null and not s.awaits_recipients then
    return;
  end if;
  return query
  select 'send',
         case when s.is_cancelled then 'cancelled' when s.awaits_recipients then 'waiting'
              when ended >= s.total then 'finished' else 'running' end,
         -- Recipients may be forgotten sooner than outcomes.
         greatest(s.total, ended), greatest(s.total - ended, 0), s.delivered, s.rejected, s.failed, s.suppressed,
         s.expired, s.cancelled, s.unknown, s.retried, s.why_nobody,
         (pushq.quiet_recipients(q, status.id)).recipients;
end $$;
