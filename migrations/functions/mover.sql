-- The session that moves a tenant. It is identified by its process, not by a lock of PostgreSQL: a lock for hours would
-- hold up vacuum, or be an advisory lock, which every login of the database can take.

-- Whether another session moves the tenant. A session that was lost counts until the server notices.
create or replace function pushq.has_mover(tenant text) returns boolean
language sql stable as $$
  select exists (
    select from pushq.mover m
    join pg_stat_activity a
      -- The start of other roles' sessions may be hidden.
      on a.pid = m.pid and a.usesysid = m.role and coalesce(a.backend_start = m.started_at, true)
    where m.tenant = $1 and m.pid <> pg_backend_pid())
$$;

-- Makes this session the only one that moves the tenant. Returns whether that succeeded.
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

-- Ends this session's move of the tenant.
create or replace function pushq.unlock_move(tenant text) returns void
language plpgsql as $$
begin
  delete from pushq.mover m where m.tenant = unlock_move.tenant and m.pid = pg_backend_pid();
end $$;
