-- Resumes queues that a worker paused because of an earlier version of a credential; returns their number.
--
-- The statement that replaces the credential calls this after it has locked the credential's row. Statements in a
-- function see everything that was committed before they began, including a pause that was written while the caller
-- waited for the lock.
create or replace function pushq.resume_replaced(tenant int, credential int) returns bigint
language plpgsql as $$
declare
  resumed bigint;
begin
  update pushq.queue q
  set paused_at = null, paused_reason = null, paused_credential_version = null, credential_refusals = 0,
      resumed_at = clock_timestamp()
  where q.tenant_id = tenant and q.credential_id = credential and q.paused_credential_version is not null;
  get diagnostics resumed = row_count;
  return resumed;
end $$;
