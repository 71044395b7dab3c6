-- Which session moves a tenant. It is known by its process and not by a lock of PostgreSQL: one that lasts for hours
-- would be an advisory lock, which everybody who may connect to the database can take, or would hold up vacuum.

-- Whether another session moves the tenant. One that was lost does so until the server has noticed.
create or replace function pushq.has_mover(tenant text) returns boolean
language sql stable as $$
  select exists (
    select from pushq.mover m
    join pg_stat_activity a
      -- Of sessions of other roles the start may not be shown.
      on a.pid = m.pid and a.usesysid = m.role and coalesce(a.backend_start = m.started_at, true)
    where m.tenant = $1 and m.pid <> pg_backend_pid())
$$;

-- Whether this session alone moves the tenant from now on.
create or replace function pushq.lock_move(tenant text) returns boolean
language plpgsql as $$
begin
  insert into pushq.mover as m (tenant, pid, role, started_at)
  select lock_move.tenant, a.pid, a.usesysid, a.backend_start from pg_stat_activity a where a.pid = pg_backend_pid()
  on conflict on constraint mover_pkey do update
    set pid = excluded.pid, role = excluded.role, started_at = excluded.started_at
    where not pushq.has_mover(m.tenant);
  return found;
end $$;

-- The session does not move the tenant any more.
create or replace function pushq.unlock_move(tenant text) returns void
language plpgsql as $$
begin
  delete from pushq.mover m where m.tenant = unlock_move.tenant and m.pid = pg_backend_pid();
end $$;
