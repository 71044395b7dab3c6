-- Reads `tenant/app/environment`. Every function that producers call finds its queue here, so here it is decided
-- whether the caller may act for the tenant: its login was granted to it (`pushq.tenant_login`), or has the rights of
-- the schema's owner. The error is the same for a queue of another tenant and for one that does not exist, and takes as
-- long: a tenant's login begins with the tenants that it was granted, so that no row of another one is read.
--
-- A tenant that has moved to another database is not found either; who could find it before is told where it is.
--
-- A login that was granted the tenant `--read-only` finds it only where nothing is changed (`reads`).
--
-- Beside the queue, what decides whether it takes anything: whether its tenant is suspended and has quotas, and
-- whether nobody has counted for 30 seconds what it has of them.
create or replace function pushq.find_queue(
  name text, reads boolean default false, out queue_id int, out tenant_id int, out suspended_at timestamptz,
  out has_quota boolean, out is_stale boolean, out max_calls int
)
language plpgsql stable as $$
declare
  -- As pushq.caller(), which would be called twice.
  who text := case current_setting('role') when 'none' then session_user else current_setting('role') end;
begin
  select n.queue_id, n.tenant_id, n.suspended_at, o.tenant_id is not null,
         o.tenant_id is not null and coalesce(u.counted_at < clock_timestamp() - interval '30 seconds', true),
         o.max_calls
  into queue_id, tenant_id, suspended_at, has_quota, is_stale, max_calls
  from pushq.queue_name n
  left join pushq.tenant_quota o on o.tenant_id = n.tenant_id
  left join pushq.tenant_usage u on u.tenant_id = o.tenant_id
  where n.app = split_part($1, '/', 2) and n.environment = split_part($1, '/', 3)
    and split_part($1, '/', 4) = '' and right($1, 1) <> '/'
    and n.tenant_id = case
      -- The owner's rights, since the functions that call this one have `security definer`.
      when pg_has_role(who::name, current_user, 'usage') then (
        select t.id from pushq.tenant t where t.name = split_part($1, '/', 1))
      else (
        select t.id
        from pushq.tenant_login l
        -- With `offset`, or the tenant of that name would be read first, whoever's it is.
        cross join lateral (select t.id, t.name from pushq.tenant t where t.id = l.tenant_id offset 0) t
        where l.login = who and (reads or not l.read_only) and t.name = split_part($1, '/', 1)) end;
  if queue_id is null then
    perform pushq.refuse_moved(split_part($1, '/', 1), who, false);
    raise exception using errcode = 'PQ404', message = format('there is no queue “%s”', $1),
      hint = 'list them with: select queue from pushq.my_queues, or as an operator: pushq-admin queue list';
  end if;
end $$;

-- The same for the queue alone.
create or replace function pushq.queue_id(name text) returns int
language plpgsql stable as $$ begin return (pushq.find_queue(name)).queue_id; end $$;
