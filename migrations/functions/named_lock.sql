-- Locks by name that only pushq can take. PostgreSQL's advisory locks would not do: every login of the database can see
-- their keys in `pg_locks`, and take and keep them.

-- Locks a name until the end of the transaction, or until the subtransaction rolls back. It waits for a transaction
-- that has locked the name: PostgreSQL cannot insert a row with the same key before it knows whether the other row is
-- committed.
create or replace function pushq.take_lock(name text) returns void
language plpgsql as $$
begin
  insert into pushq.named_lock (name) values (take_lock.name);
  delete from pushq.named_lock n where n.name = take_lock.name;
end $$;
