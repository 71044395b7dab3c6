-- Copies a message to a day on which a job for it gets a body. The copy nearly always exists already. The day is
-- usually a later one; it is earlier after the database's clock was set back over midnight. A message that is missing,
-- as after a mishap, is not copied.
create or replace function pushq.bring_message(
  q int, message bigint, from_day date, to_day date default pushq.today()) returns void
language plpgsql as $$
declare
  brought pushq.message;
begin
  if from_day = to_day then
    return;
  end if;
  select * into brought from pushq.message m where m.day = from_day and m.queue_id = q and m.id = message;
  if not found then
    return;
  end if;
  brought.day := to_day;
  insert into pushq.message values (brought.*) on conflict do nothing;
end $$;

-- The same for several messages, for a worker. The worker waits for no other transaction: the function returns the
-- messages whose copy was inserted by a transaction that is still open, as it may stay for long.
create or replace function pushq.bring_messages(
  queues int[], messages bigint[], days date[], to_day date default pushq.today(),
  out queue_id int, out message_id bigint
) returns setof record
language plpgsql set lock_timeout = '10ms' as $$
#variable_conflict use_column
declare
  absent record;
begin
  for absent in
    select g.queue_id, g.message_id, min(g.day) as day
    from unnest(queues, messages, days) as g(queue_id, message_id, day)
    where g.day <> to_day and not exists (
      select from pushq.message m where m.day = to_day and m.queue_id = g.queue_id and m.id = g.message_id)
    group by g.queue_id, g.message_id
    -- All workers use the same order.
    order by g.queue_id, g.message_id
  loop
    begin
      perform pushq.bring_message(absent.queue_id, absent.message_id, absent.day, to_day);
    exception when lock_not_available then
      -- One transaction may hold hundreds of messages.
      perform set_config('lock_timeout', '1ms', true);
      queue_id := absent.queue_id;
      message_id := absent.message_id;
      return next;
    end;
  end loop;
end $$;

-- Copies the messages of a campaign and of its shares to a day. False if another transaction is copying one of them, as
-- above.
create or replace function pushq.bring_campaign(f pushq.fan_out, to_day date default pushq.today()) returns boolean
language plpgsql as $$
declare
  messages bigint[] := array[f.message_id];
begin
  if f.message_day = to_day then
    return true;
  end if;
  if f.shares is not null then
    messages := messages || array(
      select s.message_id from pushq.campaign_share s where s.queue_id = f.queue_id and s.campaign_id = f.campaign_id);
  end if;
  perform from pushq.bring_messages(
    array_fill(f.queue_id, array[cardinality(messages)]), messages,
    array_fill(f.message_day, array[cardinality(messages)]), to_day);
  return not found;
end $$;
