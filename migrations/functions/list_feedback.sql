-- What was done to devices because of APNs' reports, in an order in which a reader misses nothing and gets nothing
-- twice.

-- Lists up to `most` reports that deactivated a device, or whose deactivation was undone: draws their cursors. Returns
-- how many.
--
-- One step at a time: a step draws its cursors after all earlier steps have been committed, and they come to light at
-- once, with its own commit. So whoever has seen a cursor has seen all lower ones, and what another transaction
-- commits late gets a higher one. After a restore they go on above all that were drawn before, as identifiers do.
-- Where its tenant was moved, they also go on above those that it got elsewhere.
create or replace function pushq.list_feedback(most int) returns int
language plpgsql as $$
declare
  listed int;
begin
  -- The usual case, without a lock.
  if not exists (
    select from pushq.feedback f where f.cursor is null and f.verdict in ('deactivated', 'undone')) then
    return 0;
  end if;
  perform from pushq.duty d where d.name = 'listing' for update;
  if not found then
    return 0;
  end if;
  with drawn as (
    update pushq.feedback f
    set cursor = n.cursor, listed_at = clock_timestamp()
    from (
      select u.day, u.queue_id, u.id, u.tenant_id, nextval('pushq.id') as cursor
      from (
        select f.day, f.queue_id, f.id, t.id as tenant_id
        from pushq.feedback f
        -- Without those of a tenant that is about to arrive.
        join pushq.queue q on q.id = f.queue_id
        join pushq.tenant t on t.id = q.tenant_id
        where f.cursor is null and f.verdict in ('deactivated', 'undone')
        order by f.queue_id, f.id
        limit most
        -- One that a producer erases at this moment, in a transaction that may last, keeps the others from nobody.
        for no key update of f skip locked) u) n
    where f.day = n.day and f.queue_id = n.queue_id and f.id = n.id
    returning n.tenant_id, n.cursor),
  -- Webhooks are due by this: whoever delivers need not look for reports of each queue.
  told as (
    update pushq.webhook_progress p
    set newest = n.cursor
    from (select d.tenant_id, max(d.cursor) as cursor from drawn d group by d.tenant_id) n
    where p.tenant_id = n.tenant_id)
  select count(*) into listed from drawn;
  return listed;
end $$;
