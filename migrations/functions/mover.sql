-- The session that moves a tenant. It is identified by its process, not by a lock of PostgreSQL: a lock for hours would
-- hold up vacuum, or be an advisory lock, which every login of the database can take.

-- Whether a session with these values is connected. A session that was lost counts until the server notices.
create or replace function pushq.is_connected(pid int, role oid, started_at timestamptz) returns boolean
language sql stable as $$
  select exists (
    select from pg_stat_activity a
    -- The start of other roles' sessions may be hidden.
    where a.pid = $1 and a.usesysid = $2 and coalesce(a.backend_start = $3, true))
$$;

-- Whether another session moves the tenant.
create or replace function pushq.has_mover(tenant text) returns boolean
language sql stable as $$
  select exists (
    select from pushq.mover m
    where m.tenant = $1 and m.pid <> pg_backend_pid() and pushq.is_connected(m.pid, m.role, m.started_at))
$$;

-- Makes this session the only one that moves the tenant. Returns whether that succeeded. The row is locked before it is
-- read: another session may have taken the move over and not have committed yet.
create or replace function pushq.lock_move(tenant text) returns boolean
language plpgsql as $$
declare
  known pushq.mover;
begin
  insert into pushq.mover (tenant, pid, role, started_at)
  select lock_move.tenant, a.pid, a.usesysid, a.backend_start from pg_stat_activity a where a.pid = pg_backend_pid()
  on conflict on constraint mover_pkey do nothing;
  if found then
    return true;
  end if;
  select m.* into known from pushq.mover m where m.tenant = lock_move.tenant for update;
  -- A transaction sees the sessions of its first look.
  perform pg_stat_clear_snapshot();
  if not found or known.pid <> pg_backend_pid() and pushq.is_connected(known.pid, known.role, known.started_at) then
    return false;
  end if;
  update pushq.mover m
  set pid = a.pid, role = a.usesysid, started_at = a.backend_start
  from pg_stat_activity a
  where a.pid = pg_backend_pid() and m.tenant = lock_move.tenant;
  return true;
end $$;

-- Ends this session's move of the tenant.
create or replace function pushq.unlock_move(tenant text) returns void
language plpgsql as $$
begin
  delete from pushq.mover m where m.tenant = unlock_move.tenant and m.pid = pg_backend_pid();
end $$;
