-- Acts on up to `most` records: a device that has not registered again since its token was reported is deactivated,
-- as after a 410, and the producer gets a row of feedback for every known device. Unknown tokens are ignored.
-- `reason` is the code of Unregistered. Returns how many records were acted on, and how many devices deactivated.
create or replace function pushq.act_on_feedback(reason smallint, most int)
returns table (acted bigint, deactivated bigint)
language plpgsql as $$
begin
  -- The usual case. The statement below would lock more than is necessary.
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
      -- A device that another transaction is writing keeps its record for the next round.
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
    where d.queue_id = l.queue_id and d.id = l.device_id
      -- One that is inactive for another answer of APNs is dead from now on: whoever undoes that leaves it alone.
      and (d.active or d.inactive_reason <> $1)
      and coalesce(greatest(d.registered_at, d.reactivated_at), '-infinity') <= l.reported_at
    returning d.queue_id, d.id),
  evidence as (
    insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
    select l.queue_id, l.device_id, $1, l.reported_at, case when d.id is null then 'kept' else 'deactivated' end
    from latest l
    left join dead d on d.queue_id = l.queue_id and d.id = l.device_id)
  select (select count(*) from taken), (select count(*) from dead);
end $$;
