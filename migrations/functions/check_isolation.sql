-- Refuses a transaction whose snapshot is older than its statement. The action `what` must see everything that other
-- sessions have committed: jobs that workers have put back to wait, sends, or another token of the installation.
-- PostgreSQL notices rows that others have changed since (40001), but not rows that they have added.
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
