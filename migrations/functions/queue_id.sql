-- Finding a queue by its name, `tenant/app/environment`, and checking the caller's rights.

-- The queue of this name, if `who` may act for its tenant: its login was granted the tenant (`pushq.tenant_login`), or
-- has the rights of the schema's owner. For a queue of another tenant there is no row, as for one that does not exist,
-- and the call takes as long: the search begins with the tenants that the login was granted, so no row of another
-- tenant is read. A login that was granted the tenant `--read-only` finds the queue only for calls that change nothing
-- (`reads`).
--
-- Every function that producers call finds its queue here, so here their rights are checked. It is in SQL, so that the
-- planner inlines it into the calling statement: calls are the largest part of a registration's cost
-- (docs/performance.md). For inlining it must not be strict, and must have neither `security definer` nor `set`.
create or replace function pushq.queues_for(who text, name text, reads boolean)
returns table (queue_id int, tenant_id int, suspended_at timestamptz, has_quota boolean)
language sql stable as $$
  select q.id, t.id, t.suspended_at, o.tenant_id is not null
  from pushq.tenant t
  join pushq.app a on a.tenant_id = t.id
  join pushq.queue q on q.tenant_id = t.id and q.app_id = a.id
  left join pushq.tenant_quota o on o.tenant_id = t.id
  where a.bundle_id = split_part($2, '/', 2) and q.environment = split_part($2, '/', 3)
    and split_part($2, '/', 4) = '' and right($2, 1) <> '/'
    -- This is a subquery, so that it runs once and not for each table.
    and t.id = (
      select case
        when pushq.acts_for_all($1) then (
          select t.id from pushq.tenant t where t.name = split_part($2, '/', 1))
        else (
          select t.id
          from pushq.tenant_login l
          -- Without `offset`, PostgreSQL would first read the tenant of that name, even if the login has no right to
          -- it.
          cross join lateral (select t.id, t.name from pushq.tenant t where t.id = l.tenant_id offset 0) t
          where l.login = $1 and ($3 or not l.read_only) and t.name = split_part($2, '/', 1)) end)
$$;

-- Raises the error for a queue that was not found. A tenant that has moved to another database is not found either; a
-- login that could find it before is told where it is.
create or replace function pushq.refuse_queue(who text, name text) returns void
language plpgsql stable as $$
begin
  perform pushq.refuse_moved(split_part(name, '/', 1), who, false);
  if exists (select from pushq.queues_for(who, name, true)) then
    raise exception using errcode = 'PQ403',
      message = format('login “%s” may only read queue “%s”', who, pushq.shown(name, 240)),
      hint = 'use a login that was granted the tenant without --read-only';
  end if;
  perform pushq.demand_role(who);
  raise exception using errcode = 'PQ404', message = format('there is no queue “%s”', pushq.shown(name, 240)),
    -- An operator, who has the rights of the schema's owner, may have been granted no tenant.
    hint = case
      when (select pg_has_role(who::name, n.nspowner, 'usage') from pg_namespace n where n.nspname = 'pushq')
        then 'list them with: pushq-admin queue list'
      else format('list those of login “%s” with: select queue from pushq.my_queues', who) end;
end $$;

-- The queue of this name; raises the error if it is not found.
create or replace function pushq.find_queue(
  name text, reads boolean default false, out queue_id int, out tenant_id int, out suspended_at timestamptz,
  out has_quota boolean
)
language plpgsql stable as $$
declare
  who text := pushq.caller();
begin
  select k.queue_id, k.tenant_id, k.suspended_at, k.has_quota into queue_id, tenant_id, suspended_at, has_quota
  from pushq.queues_for(who, name, reads) k;
  if queue_id is null then
    perform pushq.refuse_queue(who, name);
  end if;
end $$;

-- The same, but only the queue's number.
create or replace function pushq.queue_id(name text) returns int
language plpgsql stable as $$ begin return (pushq.find_queue(name)).queue_id; end $$;
