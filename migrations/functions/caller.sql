-- The role on whose behalf a statement runs: the login, or the role that it has set with `set role`. In a function with
-- `security definer`, `current_user` is the owner instead.
--
-- PostgreSQL has parsed its body (`return`, not a text). Views call it with the search path of whoever reads them, in
-- which a function of theirs could stand for one of PostgreSQL's, and say that they are somebody else.
create or replace function pushq.caller() returns text
language sql stable parallel safe
return case current_setting('role') when 'none' then session_user::text else current_setting('role') end;
