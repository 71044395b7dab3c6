-- Reads `tenant/app/environment`. Every function that producers call finds its queue here, so here it is decided
-- whether the caller may act for the tenant: its login was granted to it (`pushq.tenant_login`), or has the rights of
-- the schema's owner. The error is the same for a queue of another tenant and for one that does not exist.
create or replace function pushq.queue_id(name text) returns int
language plpgsql stable as $$
declare
  found_id int;
  -- As pushq.caller(), which would be called twice.
  who      text := case current_setting('role') when 'none' then session_user else current_setting('role') end;
begin
  select n.queue_id into found_id
  from pushq.queue_name n
  where n.tenant = split_part($1, '/', 1) and n.app = split_part($1, '/', 2) and n.environment = split_part($1, '/', 3)
    and split_part($1, '/', 4) = '' and right($1, 1) <> '/'
    -- The owner's rights, since the functions that call this one have `security definer`.
    and (exists (
          select from pushq.tenant_login l where l.login = who and l.tenant_id = n.tenant_id and not l.read_only)
        or pg_has_role(who::name, current_user, 'usage'));
  if found_id is null then
    raise exception using errcode = 'PQ404', message = format('there is no queue “%s”', $1),
      hint = 'list them with: pushq-admin queue list';
  end if;
  return found_id;
end $$;
