-- Has queues go on that a worker paused because of a credential as it was before it was replaced; returns how many.
--
-- Called by the statement that replaces it, once that has locked its row. Statements of a function see what was
-- committed until they begin, and so a pause that was written while the lock was waited for.
create or replace function pushq.resume_replaced(tenant int, credential int) returns bigint
language plpgsql as $$
declare
  resumed bigint;
begin
  update pushq.queue q
  set paused_at = null, paused_reason = null, paused_credential_version = null, resumed_at = clock_timestamp()
  where q.tenant_id = tenant and q.credential_id = credential and q.paused_credential_version is not null;
  get diagnostics resumed = row_count;
  return resumed;
end $$;
