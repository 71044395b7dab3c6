-- Lets a message replace those that are due before it for the same recipients, as soon as it is due itself. Deletes
-- rows that this one makes unnecessary, except those that another transaction is writing.
create or replace function pushq.supersede(q int, recipients bigint[], message bigint, due_at timestamptz) returns void
language plpgsql as $$
begin
  insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
  select q, r, supersede.due_at, message from unnest(recipients) r;
  if due_at <= clock_timestamp() then
    delete from pushq.newest_update n
    where n.ctid = any (array(
      select o.ctid
      from pushq.newest_update o
      where o.queue_id = q and o.recipient_id = any (recipients)
        and (o.due_at, o.message_id) < (supersede.due_at, message)
      for update skip locked));
  end if;
end $$;
