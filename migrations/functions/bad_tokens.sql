-- Why a queue is paused whose tokens APNs calls bad, in words that an operator can act on.

-- `suspects` of the last `answers` had `reason`, which is APNs' word. `tokens` are some of these suspects. Devices of
-- another queue of the tenant that have the same tokens tell which environment or app they are of.
create or replace function pushq.bad_tokens_problem(
  queue int, reason text, suspects bigint, answers bigint, tokens bytea[]
) returns text
language plpgsql stable as $$
declare
  own   pushq.queue_name;
  known record;
  proof text := '';
begin
  select * into own from pushq.queue_name n where n.queue_id = queue;
  select n.name, n.app, n.environment, count(*) as devices into known
  from pushq.queue_name n
  join pushq.device d on d.queue_id = n.queue_id and d.token = any (tokens)
  where n.tenant_id = own.tenant_id and n.queue_id <> queue
  group by n.name, n.app, n.environment
  order by count(*) desc, n.name
  limit 1;
  if known.devices * 2 > cardinality(tokens) then
    proof := format('; %s of the %s that were checked are also devices of %s',
                    known.devices, cardinality(tokens), known.name);
  end if;
  return format('%s of the last %s answers were %s: the tokens are probably ', suspects, answers, reason)
    || case when reason = 'DeviceTokenNotForTopic' or proof <> '' and known.app <> own.app
              then format('of another app than %s', own.app)
            when own.environment = 'production' then
              'of the other environment: of development builds of the app, which belong in its queue for the sandbox'
            else 'of the other environment: of the app from the App Store or TestFlight, which belong in its queue '
                 'for production' end
    || proof || '. No device was deactivated';
end $$;
