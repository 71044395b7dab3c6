-- Lists the actions taken because of APNs' reports, in an order in which a reader misses nothing and gets nothing
-- twice.

-- Lists up to `most` reports that deactivated a device, or whose deactivation was undone, by assigning cursors to them.
-- If the device was registered or reactivated since, a report that deactivated it is marked `kept` and not listed: its
-- producer knows that the token lives, and would take it for dead. Returns how many were listed or marked.
--
-- Only one step runs at a time. A step assigns its cursors after all earlier steps have committed, and all of them
-- become visible with its own commit. So a reader that has seen a cursor has seen all lower ones, and a report that
-- another transaction commits late gets a higher one. After a restore, cursors continue above all earlier ones, as ids
-- do. After a tenant has moved, they also continue above those that it got in the other database.
--
-- Reports are found by their keys: of joins, only nested loops are allowed, whatever statistics say about a new day.
create or replace function pushq.list_feedback(most int) returns int
language plpgsql set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set jit = off as $$
declare
  done int;
begin
  perform pushq.fit_report_plans();
  -- The usual case, without a lock.
  if not exists (
    select from pushq.feedback f where f.cursor is null and f.verdict in ('deactivated', 'undone')) then
    return 0;
  end if;
  perform from pushq.duty d where d.name = 'listing' for update;
  if not found then
    return 0;
  end if;
  with due as materialized (
    select f.day, f.queue_id, f.id, t.id as tenant_id,
           f.verdict = 'deactivated' and exists (
             select from pushq.device d
             where d.queue_id = f.queue_id and d.id = f.device_id
               and pushq.known_since(d.registered_at, d.reactivated_at) > f.reported_at) as is_void
    from pushq.feedback f
    -- Without reports of a tenant that is still arriving.
    join pushq.queue q on q.id = f.queue_id
    join pushq.tenant t on t.id = q.tenant_id
    where f.cursor is null and f.verdict in ('deactivated', 'undone')
    order by f.queue_id, f.id
    limit most
    -- A report that a producer is erasing, in a transaction that may last, does not block the others.
    for no key update of f skip locked),
  voided as (
    update pushq.feedback f
    set verdict = 'kept'
    from due u
    where u.is_void and f.day = u.day and f.queue_id = u.queue_id and f.id = u.id),
  drawn as (
    update pushq.feedback f
    set cursor = n.cursor, listed_at = clock_timestamp()
    from (
      select u.*, nextval('pushq.id') as cursor
      from (select * from due where not is_void order by queue_id, id) u) n
    where f.day = n.day and f.queue_id = n.queue_id and f.id = n.id
    returning n.tenant_id, n.cursor),
  -- `newest` makes a webhook due, so that a delivery need not look for reports in each queue.
  told as (
    update pushq.webhook_progress p
    set newest = n.cursor
    from (select d.tenant_id, max(d.cursor) as cursor from drawn d group by d.tenant_id) n
    where p.tenant_id = n.tenant_id)
  select count(*) into done from due;
  return done;
end $$;
