-- Refuses a transaction whose snapshot is older than its statement. The action `what` must see everything that other
-- sessions have committed: jobs that workers have ended or put back to wait, sends, schedules, or another token of the
-- installation. PostgreSQL notices that others have changed or deleted rows since (40001) if the action changes or
-- locks them, but not that they have added rows.
create or replace function pushq.check_isolation(what text default 'a campaign cannot be resumed or cancelled')
returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not like 'read %' then
    raise exception using errcode = 'PQ409',
      message = format('%s in a transaction with isolation level %s', what, current_setting('transaction_isolation')),
      hint = 'use read committed, or a transaction of its own';
  end if;
end $$;
