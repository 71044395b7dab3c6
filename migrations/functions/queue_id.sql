-- Reads `tenant/app/environment`. Raises an error that names what is missing.
create or replace function pushq.queue_id(name text) returns int
language plpgsql stable as $$
declare
  found_id int;
begin
  select n.queue_id into found_id
  from pushq.queue_name n
  where n.tenant = split_part($1, '/', 1) and n.app = split_part($1, '/', 2) and n.environment = split_part($1, '/', 3)
    and split_part($1, '/', 4) = '' and right($1, 1) <> '/';
  if found_id is null then
    raise exception using errcode = 'PQ404', message = format('there is no queue “%s”', $1),
      hint = 'list them with: pushq-admin queue list';
  end if;
  return found_id;
end $$;
