-- What answers of APNs require of workers, and only others may undo: producers, who register a device or a channel, and
-- operators. Workers pause queues, deactivate devices and retire channels. Of a campaign they only lock the row, for
-- which PostgreSQL asks for the right to update a column. A right on a column has no direction, so triggers refuse the
-- way back.
--
-- The functions of producers, and those that resume queues by themselves, run with the owner's rights, and operators
-- have these rights. A worker's login has none of them.
--
-- The triggers run after the update. Before it, PostgreSQL would lock each row of every update of these tables, also of
-- other columns, which writes to the WAL. Afterwards it only reads the former row, and evaluates the condition if the
-- statement sets one of the columns. The function runs for rows that fit it.
create or replace function pushq.guard_undo() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not pg_has_role(current_user, (select c.relowner from pg_class c where c.oid = tg_relid), 'usage') then
    raise exception using errcode = '42501',
      message = format('a worker''s login may not undo this in %s', tg_table_name);
  end if;
  return null;
end $$;

-- A pause also keeps its time and its reason. With the version of a credential, a pause by hand would end as one does
-- after which the credential is tried again.
create or replace trigger guard_undo after update of paused_at, paused_reason, paused_credential_version on pushq.queue
for each row when (
  old.paused_at is not null
  and row(new.paused_at, new.paused_reason, new.paused_credential_version)
    is distinct from row(old.paused_at, old.paused_reason, old.paused_credential_version))
execute function pushq.guard_undo();

create or replace trigger guard_undo after update of paused_at on pushq.campaign
for each row when (old.paused_at is not null and new.paused_at is distinct from old.paused_at)
execute function pushq.guard_undo();

create or replace trigger guard_undo after update of active on pushq.device
for each row when (new.active and not old.active) execute function pushq.guard_undo();

create or replace trigger guard_undo after update of retired_at on pushq.channel
for each row when (old.retired_at is not null and new.retired_at is null) execute function pushq.guard_undo();
