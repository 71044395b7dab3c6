-- The role on whose behalf a statement runs: the login, or the role that the login has set with `set role`. In a
-- function with `security definer`, `current_user` is the owner instead.
--
-- The body is `return`, which PostgreSQL has already parsed, and not a text. Views call the function with the search
-- path of the session that reads them. If the body were a text, that session could put a function of its own in place
-- of one of PostgreSQL's, and act as another role.
create or replace function pushq.caller() returns text
language sql stable parallel safe
return case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
