-- Locks by name that only pushq can take. Everybody who may connect to the database can see the keys of PostgreSQL's
-- advisory locks in `pg_locks`, take them and keep them.

-- Locks a name until the end of the transaction, or of the subtransaction if that is rolled back. Waits for whoever has
-- locked it: a row with the same key cannot be inserted before it is known what becomes of theirs.
create or replace function pushq.take_lock(name text) returns void
language plpgsql as $$
begin
  insert into pushq.named_lock (name) values (take_lock.name);
  delete from pushq.named_lock n where n.name = take_lock.name;
end $$;
