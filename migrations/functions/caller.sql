-- The role on whose behalf a statement runs: the login, or the role that it has set with `set role`. In a function with
-- `security definer`, `current_user` is the owner instead.
create or replace function pushq.caller() returns text
language sql stable parallel safe as $$
  select case current_setting('role') when 'none' then session_user::text else current_setting('role') end
$$;
