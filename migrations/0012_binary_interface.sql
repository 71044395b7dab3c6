-- What queues need that are sent over the binary interface: rules of its own, and the feedback service.
--
-- Apple's own servers no longer speak it (switched off 31 March 2021); a queue of a compatible service is set to it.

-- A certificate is all that the binary interface knows a sender by, so whoever sets the interface or the credential is told at once.
create function pushq.check_gateway() returns trigger
language plpgsql as $$
begin
  if new.gateway = 'binary'
    and exists (select from pushq.credential c
                where c.tenant_id = new.tenant_id and c.id = new.credential_id and c.kind = 'token') then
    raise exception using errcode = 'PQ400',
      message = 'the binary interface knows no signing keys, and the queue''s credential is one',
      hint = 'give the queue a certificate: pushq-admin queue set QUEUE --gateway binary --credential NAME';
  end if;
  return new;
end $$;

create trigger queue_gateway_fits before insert or update of gateway, credential_id on pushq.queue
for each row when (new.gateway = 'binary') execute function pushq.check_gateway();

-- What is wrong with a message for this queue because of its interface, or null. The queue is looked up only for messages that
-- could not be carried by the binary interface: others pay nothing.
create function pushq.gateway_problem(
  queue_id int, payload json, push_type text, priority int, collapse_id text
) returns text
language plpgsql stable as $$
declare
  bytes   int  := octet_length(payload::text);
  problem text := case
    when push_type not in ('alert', 'background', 'mdm')
      then format('push type “%s” has a topic of its own, which the binary interface does not know: use alert or background', push_type)
    when priority = 1 then 'priority 1 is unknown to the binary interface: use 10 or 5'
    when collapse_id is not null then 'the binary interface has no collapse ID: leave it out'
    when bytes > 2048 then format('the payload has %s bytes: the binary interface takes at most 2048', bytes) end;
begin
  if problem is null or exists (select from pushq.queue q where q.id = $1 and q.gateway <> 'binary') then
    return null;
  end if;
  return problem;
end $$;

-- When the feedback service was asked about a queue. It is asked again when the queue's `feedback_every` has passed since, whoever
-- asked and whatever was set then. A queue that was never asked about has no row.
create table pushq.feedback_poll (
  queue_id   int         not null,
  polled_at  timestamptz,                                 -- when a list was last read to its end
  not_before timestamptz,                                 -- left alone till then: a worker reads its list, or could not
  failures   int         not null default 0,              -- in a row
  problem    text,                                        -- what the last of them came to
  constraint feedback_poll_pkey primary key (queue_id)
);

-- What the feedback service said, as it said it. Reading clears Apple's list: so this is written first and acted on afterwards, by
-- whoever finds it. Rows go when they have been acted on.
create table pushq.feedback_record (
  queue_id    int         not null,
  id          bigint      not null default nextval('pushq.id'),
  token       bytea       not null,
  reported_at timestamptz not null,
  constraint feedback_record_pkey primary key (queue_id, id)
);

insert into pushq.duty (name) values ('feedback');

-- Acts on up to `most` records: a device that has not registered again since its token was reported is deactivated, as after a
-- 410, and the producer gets a row of feedback for every known device. Tokens that nobody knows are passed over. `reason` is the
-- code of Unregistered. Returns how many records were acted on, and how many devices deactivated.
create function pushq.act_on_feedback(reason smallint, most int) returns table (acted bigint, deactivated bigint)
language plpgsql as $$
begin
  -- As nearly always. The statement below would lock more than it needs.
  if not exists (select from pushq.feedback_record) then
    return query select 0::bigint, 0::bigint;
    return;
  end if;
  return query
  with due as materialized (
    select r.ctid as spot, r.queue_id, r.token, r.reported_at
    from pushq.feedback_record r
    order by r.queue_id, r.id
    limit most
    for update skip locked),
  known as materialized (
    select d.queue_id, d.id, d.token
    from (select distinct queue_id, token from due) t
    join pushq.device d on d.queue_id = t.queue_id and d.token = t.token),
  free as materialized (
    select d.queue_id, d.id
    from pushq.device d
    join known k on k.queue_id = d.queue_id and k.id = d.id
    for no key update of d skip locked),
  taken as (
    delete from pushq.feedback_record
    where ctid = any (array(
      select spot
      from due
      -- A device that somebody is writing in a transaction of their own keeps its record for the next time.
      where not exists (
        select from known k
        where k.queue_id = due.queue_id and k.token = due.token
          and (k.queue_id, k.id) not in (select queue_id, id from free))))
    returning queue_id, token, reported_at),
  latest as materialized (
    select distinct on (t.queue_id, t.token) t.queue_id, d.id as device_id, t.reported_at
    from taken t
    join pushq.device d on d.queue_id = t.queue_id and d.token = t.token
    order by t.queue_id, t.token, t.reported_at desc),
  dead as (
    update pushq.device d
    set active = false, inactive_since = l.reported_at, inactive_reason = $1
    from latest l
    where d.queue_id = l.queue_id and d.id = l.device_id and d.active
      and coalesce(greatest(d.registered_at, d.reactivated_at), '-infinity') <= l.reported_at
    returning d.queue_id, d.id),
  evidence as (
    insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
    select l.queue_id, l.device_id, $1, l.reported_at, case when d.id is null then 'kept' else 'deactivated' end
    from latest l
    left join dead d on d.queue_id = l.queue_id and d.id = l.device_id)
  select (select count(*) from taken), (select count(*) from dead);
end $$;
