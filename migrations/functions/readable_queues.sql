-- The queues that a caller may look at: the named one, those of one tenant, or those of all its tenants. Null stands
-- for all queues, when a caller with the owner's rights names none. Every function that shows something (`show_…`) but
-- no token finds its queues here. So this function decides what the caller sees: the tenants that its login was
-- granted, even with `--read-only`. A tenant that it was not granted has no queues for it, like one that does not
-- exist; a caller with the owner's rights gets an error for a tenant that does not exist. A tenant's calls that read
-- count against its quota, too.
create or replace function pushq.readable_queues(queue text, tenant text default null) returns int[]
language plpgsql as $$
declare
  who      text    := pushq.caller();
  sees_all boolean := pushq.acts_for_all(who);
  door     record;
  most     int;
begin
  if queue is not null then
    door := pushq.find_queue(queue, reads => true);
    select o.max_calls into most from pushq.tenant_quota o where o.tenant_id = door.tenant_id;
    if most is not null and not sees_all then
      perform pushq.count_call(door.tenant_id, split_part(queue, '/', 1), most);
    end if;
    return array[door.queue_id];
  end if;
  if sees_all then
    perform pushq.check_tenant(readable_queues.tenant);
    return case when tenant is not null then array(
      select n.queue_id from pushq.queue_name n where n.tenant = readable_queues.tenant) end;
  end if;
  -- An operator must not take the installation for empty. PostgresStore/Tenants/LoginRights.swift says what to do.
  perform pushq.demand_role(who);
  if pg_has_role(who::name, to_regrole('pushq_owner')::oid, 'usage') then
    raise exception using errcode = '42501',
      message = format('the schema pushq belongs to %I and not to pushq_owner', current_user);
  end if;
  for door in
    select t.id, t.name, o.max_calls
    from pushq.tenant_login l
    cross join lateral (select t.id, t.name from pushq.tenant t where t.id = l.tenant_id offset 0) t
    join pushq.tenant_quota o on o.tenant_id = t.id and o.max_calls is not null
    where l.login = who and (readable_queues.tenant is null or t.name = readable_queues.tenant)
  loop
    perform pushq.count_call(door.id, door.name, door.max_calls);
  end loop;
  -- Without `offset`, PostgreSQL would first read the tenant of that name, even if the login has no right to it.
  return array(
    select n.queue_id
    from pushq.tenant_login l
    cross join lateral (
      select n.queue_id, n.tenant from pushq.queue_name n where n.tenant_id = l.tenant_id offset 0) n
    where l.login = who and (readable_queues.tenant is null or n.tenant = readable_queues.tenant));
end $$;

-- Refuses the name of a tenant that does not exist, and suggests the one that was probably meant. Only for operators.
create or replace function pushq.check_tenant(tenant text) returns void
language plpgsql stable as $$
begin
  if tenant is not null and not exists (select from pushq.tenant t where t.name = check_tenant.tenant) then
    perform pushq.refuse_moved(tenant, pushq.caller(), false);
    raise exception using errcode = 'PQ404',
      message = format('there is no tenant “%s”%s', pushq.shown(tenant, 63), pushq.suggestion(
        tenant, array(select t.name from pushq.tenant t order by t.name limit 10000))),
      hint = 'list them with: pushq-admin tenant list';
  end if;
end $$;
