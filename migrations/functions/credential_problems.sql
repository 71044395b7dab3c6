-- The reasons, in words, for which nothing can be sent with a queue's credential: it is missing, or does not fit the
-- queue.
create or replace function pushq.credential_problems(q pushq.queue) returns text[]
language plpgsql stable as $$
declare
  problems text[] := '{}';
  c        pushq.credential;
  topic    text   := (select a.bundle_id from pushq.app a where a.id = q.app_id);
begin
  select * into c from pushq.credential x where x.tenant_id = q.tenant_id and x.id = q.credential_id;
  if not found then
    return array[
      format('the queue has no credential; add one with: pushq-admin credential add, or choose one that the tenant has '
             'with: pushq-admin queue set %s --credential NAME',
             (select n.name from pushq.queue_name n where n.queue_id = q.id))];
  end if;
  if c.not_after <= now() then
    problems := problems || format('certificate “%s” expired at %s', c.name, c.not_after::timestamptz(0));
  end if;
  if not q.environment = any (c.environments) then
    problems := problems || format('credential “%s” is not for environment %s', c.name, q.environment);
  end if;
  if cardinality(c.topics) > 0 and not topic = any (c.topics) then
    problems := problems || format('credential “%s” is not for topic %s', c.name, topic);
  end if;
  return problems;
end $$;
