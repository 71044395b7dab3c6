-- The rules for queues that use the binary interface.
--
-- Apple's own servers no longer support it (switched off 31 March 2021); it is for queues of a compatible service.

-- The binary interface authenticates by certificate only. An operator who sets an interface or a credential that does
-- not fit gets an error at once.
create or replace function pushq.check_gateway() returns trigger
language plpgsql as $$
begin
  -- A queue that comes with a move, or back from one, comes as it was. Two operators who set its interface and its
  -- credential at the same time passed these checks. If it were refused now, its tenant would be in neither database.
  if tg_op = 'INSERT' and current_setting('pushq.puts_settings', true) = 'on' then
    return new;
  end if;
  if new.gateway = 'binary'
    and exists (select from pushq.credential c
                where c.tenant_id = new.tenant_id and c.id = new.credential_id and c.kind = 'token') then
    raise exception using errcode = 'PQ400',
      message = 'the binary interface does not take signing keys, but the queue''s credential is one',
      hint = 'give the queue a certificate: pushq-admin queue set QUEUE --gateway binary --credential NAME';
  end if;
  return new;
end $$;

create or replace trigger queue_gateway_fits before insert or update of gateway, credential_id on pushq.queue
for each row when (new.gateway = 'binary') execute function pushq.check_gateway();

-- The same for a certificate that is to be replaced by a signing key.
create or replace function pushq.check_replacement() returns trigger
language plpgsql as $$
declare
  used_by text := (
    select n.name
    from pushq.queue q
    join pushq.queue_name n on n.queue_id = q.id
    where q.tenant_id = new.tenant_id and q.credential_id = new.id and q.gateway = 'binary'
    order by n.name
    limit 1);
begin
  if used_by is not null then
    raise exception using errcode = 'PQ400',
      message = format('the binary interface does not take signing keys, but queue “%s” uses it with this credential',
                       used_by),
      hint = format('replace it by a certificate, or first change the queue: pushq-admin queue set %s --gateway http2',
                    used_by);
  end if;
  return new;
end $$;

create or replace trigger credential_gateway_fits before update of kind on pushq.credential
for each row when (new.kind = 'token' and old.kind <> 'token') execute function pushq.check_replacement();

-- Why the queue's interface cannot carry a message, or null. The queue is looked up only for messages that the binary
-- interface cannot carry, so other messages cost nothing more.
create or replace function pushq.gateway_problem(
  queue_id int, payload json, push_type text, priority int, collapse_id text
) returns text
language plpgsql stable as $$
declare
  bytes   int  := pushq.sent_bytes(payload);
  problem text := case
    when push_type not in ('alert', 'background', 'mdm')
      then format('push type “%s” has a topic of its own, which the binary interface does not know: use alert or '
                  'background', push_type)
    when priority = 1 then 'priority 1 is unknown to the binary interface: use 10 or 5'
    when collapse_id is not null then 'the binary interface has no collapse ID: leave it out'
    when bytes > 2048 then format('the payload has %s bytes: the binary interface takes at most 2048', bytes) end;
begin
  if problem is null or exists (select from pushq.queue q where q.id = $1 and q.gateway <> 'binary') then
    return null;
  end if;
  return problem;
end $$;

-- Why the queue's interface cannot carry broadcasts, or null.
create or replace function pushq.gateway_broadcast_problem(queue_id int) returns text
language plpgsql stable as $$
begin
  return (
    select 'the binary interface has no channels: send to devices, with push type alert or background'
    from pushq.queue q
    where q.id = $1 and q.gateway = 'binary');
end $$;
