-- Processes up to `most` records. A device that has not registered again since its token was reported is deactivated,
-- as after a 410, and the producer gets a row of feedback for every known device. Unknown tokens are ignored. Returns
-- the number of records processed, and of devices deactivated.
create or replace function pushq.act_on_feedback(most int)
returns table (acted bigint, deactivated bigint)
language plpgsql as $$
begin
  -- The usual case. The statement below would take more locks than necessary.
  if not exists (select from pushq.feedback_record) then
    return query select 0::bigint, 0::bigint;
    return;
  end if;
  return query
  with due as materialized (
    select r.ctid as spot, r.queue_id, r.token, r.reported_at
    from pushq.feedback_record r
    -- Records of a tenant that is still arriving are left out: its devices may be missing.
    where exists (select from pushq.queue q where q.id = r.queue_id)
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
      -- If another transaction is writing a device, its record stays for the next round.
      where not exists (
        select from known k
        where k.queue_id = due.queue_id and k.token = due.token
          and (k.queue_id, k.id) not in (select queue_id, id from free))))
    returning queue_id, token, reason, reported_at, root_id, job_id),
  -- One row of feedback for each job, and one for the lists of the service.
  report as materialized (
    select distinct on (t.queue_id, d.id, t.job_id)
           t.queue_id, d.id as device_id, t.reason, t.reported_at, t.root_id, t.job_id
    from taken t
    join pushq.device d on d.queue_id = t.queue_id and d.token = t.token
    order by t.queue_id, d.id, t.job_id, t.reported_at desc),
  latest as materialized (
    select distinct on (r.queue_id, r.device_id) r.queue_id, r.device_id, r.reason, r.reported_at
    from report r
    order by r.queue_id, r.device_id, r.reported_at desc),
  dead as (
    update pushq.device d
    set active = false, inactive_since = l.reported_at, inactive_reason = l.reason
    from latest l
    where d.queue_id = l.queue_id and d.id = l.device_id
      -- A device that another answer of APNs has deactivated is marked dead now, so that undoing that answer leaves it
      -- alone.
      and (d.active or d.inactive_reason <> l.reason)
      and pushq.known_since(d.registered_at, d.reactivated_at) <= l.reported_at
    returning d.queue_id, d.id, pushq.known_since(d.registered_at, d.reactivated_at) as known_since),
  evidence as (
    insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict, root_id, job_id)
    select r.queue_id, r.device_id, r.reason, r.reported_at,
           -- A report from before the device registered did not deactivate it, even if another report did.
           case when d.known_since <= r.reported_at then 'deactivated' else 'kept' end, r.root_id, r.job_id
    from report r
    left join dead d on d.queue_id = r.queue_id and d.id = r.device_id)
  select (select count(*) from taken), (select count(*) from dead);
end $$;
