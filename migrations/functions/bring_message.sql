-- Copies a message to a day on which something for it gets a body. Nearly always it is there.
create or replace function pushq.bring_message(
  q int, message bigint, from_day date, to_day date default pushq.today()) returns void
language plpgsql as $$
declare
  brought pushq.message;
begin
  if from_day >= to_day then
    return;
  end if;
  select * into brought from pushq.message m where m.day = from_day and m.queue_id = q and m.id = message;
  brought.day := to_day;
  insert into pushq.message values (brought.*) on conflict do nothing;
end $$;
