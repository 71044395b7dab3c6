-- The role on whose behalf a statement runs: the login, or the role that the login has set with `set role`. In a
-- function with `security definer`, `current_user` is the owner instead.
--
-- The body is `return`, which PostgreSQL has already parsed, and not a text. Views call the function with the search
-- path of the session that reads them. If the body were a text, that session could put a function of its own in place
-- of one of PostgreSQL's, and act as another role.
create or replace function pushq.caller() returns text
language sql stable parallel safe
return case current_setting('role') when 'none' then session_user::text else current_setting('role') end;

-- Whether `who`, the caller, acts for all tenants: it has the rights of the schema's owner, and its session has set a
-- role.
--
-- Without a role that was set, the code that runs may be a tenant's: PostgreSQL calls the functions of a tenant's
-- indexes in the session of whoever runs ANALYZE, REINDEX or `pg_restore`, and in autovacuum as a superuser. It changes
-- `current_user` for that, but not `session_user`, and refuses `set role` there.
--
-- `current_user` is the owner, because the functions that call this one have `security definer`. PostgreSQL inlines it.
create or replace function pushq.acts_for_all(who text) returns boolean
language sql stable as $$
  select current_setting('role') <> 'none' and pg_has_role($1::name, current_user, 'usage')
$$;

-- Refuses a caller that would act for all tenants if its session had set a role.
create or replace function pushq.demand_role(who text) returns void
language plpgsql stable as $$
begin
  if current_setting('role') = 'none'
    and (select pg_has_role(who::name, n.nspowner, 'usage') from pg_namespace n where n.nspname = 'pushq') then
    raise exception using errcode = '42501',
      message = format('login “%s” acts for all tenants only in a session that has set a role', who),
      hint = format('run first: set role %I', who);
  end if;
end $$;
