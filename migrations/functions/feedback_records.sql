-- Processes up to `most` records. A device that has not registered again since its token was reported is deactivated,
-- as after a 410, and the producer gets a row of feedback for every known device. Unknown tokens are ignored. Returns
-- the number of records processed, and of devices deactivated.
--
-- Devices are found by their keys: of joins, only nested loops are allowed, whatever statistics say.
create or replace function pushq.act_on_feedback(most int)
returns table (acted bigint, deactivated bigint)
language plpgsql set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off as $$
begin
  -- The usual case. The statement below would take more locks than necessary.
  if not exists (select from pushq.feedback_record) then
    return query select 0::bigint, 0::bigint;
    return;
  end if;
  return query
  -- Records of a tenant that is still arriving are left out: its devices may be missing.
  with due as materialized (
    select r.ctid as spot
    from pushq.feedback_record r
    join pushq.device d on d.queue_id = r.queue_id and d.token = r.token
    where exists (select from pushq.queue q where q.id = r.queue_id)
    order by r.queue_id, r.id
    limit most
    for update of r skip locked
    -- If another transaction is writing a device, its records stay for a later round, and do not count as part of this
    -- one: however many there are, they keep no other record waiting.
    for no key update of d skip locked),
  unknown as materialized (
    select r.ctid as spot
    from pushq.feedback_record r
    where exists (select from pushq.queue q where q.id = r.queue_id)
      and not exists (select from pushq.device d where d.queue_id = r.queue_id and d.token = r.token)
    order by r.queue_id, r.id
    -- None as long as others fill the round: finding out that there is none means a look at every record.
    limit greatest(most - (select count(*) from due), 0)
    for update skip locked),
  taken as (
    delete from pushq.feedback_record
    where ctid = any (array(select spot from due union all select spot from unknown))
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
