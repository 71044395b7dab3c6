-- Several databases of one installation share nothing, and each has a number: the upper 10 of the 60 bits of its
-- identifiers. So an identifier, and an apns-id, which contains one, is of one database alone, and a tenant that moves
-- keeps its identifiers.

-- The number of this database, from 0 on.
create or replace function pushq.database_number() returns int
language sql stable as $$ select (last_value >> 50)::int from pushq.id $$;

-- Gives an installation's database its number, before an identifier was drawn in it: those that were, are in use even
-- when their tenants are gone, by APNs, by producers, and by the database that a tenant has moved to.
create or replace function pushq.set_database_number(number int) returns void
language plpgsql as $$
declare
  first bigint := number::bigint << 50;
begin
  if number is null or number not between 0 and 1023 then
    raise exception 'a database has a number between 0 and 1023, not %', number using errcode = 'PQ400';
  end if;
  if number = pushq.database_number() then
    return;
  end if;
  lock table pushq.queue in share mode;
  if exists (select from pushq.queue) or exists (select from pushq.tenant_move)
    or (select s.is_called from pushq.id s) then
    raise exception 'the number % of this database cannot be changed, because identifiers with it are in use',
                    pushq.database_number()
      using errcode = 'PQ409',
            hint = 'give a number to a database before its first queue is created, or create a new database';
  end if;
  execute format('alter sequence pushq.id minvalue %s maxvalue %s start %1$s restart',
                 greatest(first, 1), first + (1::bigint << 50) - 1);
end $$;
