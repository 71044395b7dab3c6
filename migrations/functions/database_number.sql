-- Several databases of one installation share nothing. Each has a number, which is the lower 10 of the 60 bits of its
-- ids. So an id, and the apns-id that contains it, belongs to one database only, and a tenant that moves keeps its ids.
-- Before the tenant arrives, its new database skips all ids that the old one has drawn (`pushq.draw_above`). So of two
-- ids of a tenant, the larger one is always the later one.

-- The number of this database, from 0.
create or replace function pushq.database_number() returns int
language sql stable as $$ select (last_value & 1023)::int from pushq.id $$;

-- Sets the number of an installation's database, before it draws its first id. Ids that were drawn stay in use even
-- when their tenants are gone: by APNs, by producers, and by the database that a tenant has moved to.
create or replace function pushq.set_database_number(number int) returns void
language plpgsql as $$
begin
  if number is distinct from pushq.database_number() then
    lock table pushq.queue in share mode;
  end if;
  perform pushq.check_database_number(number);
  if number <> pushq.database_number() then
    execute format('alter sequence pushq.id minvalue %s start %1$s restart', 1024 + number);
  end if;
end $$;

-- Raises an error if this database cannot get the number. It changes nothing: a dry run of `migrate` calls it alone.
create or replace function pushq.check_database_number(number int) returns void
language plpgsql stable as $$
begin
  if number is null or number not between 0 and 1023 then
    raise exception 'a database has a number between 0 and 1023, not %', number using errcode = 'PQ400';
  end if;
  if number = pushq.database_number() then
    return;
  end if;
  if exists (select from pushq.queue) or exists (select from pushq.tenant_move)
    or (select s.is_called from pushq.id s) then
    raise exception 'the number % of this database cannot be changed, because identifiers with it are in use',
                    pushq.database_number()
      using errcode = 'PQ409',
            hint = 'give a number to a database before its first queue is created, or create a new database';
  end if;
end $$;

-- Makes this database draw only ids above `id`, which another database has drawn. It skips more ids than necessary, so
-- that a session that draws at the same moment neither waits nor is overtaken.
create or replace function pushq.draw_above(id bigint) returns void
language plpgsql as $$
begin
  perform pushq.take_lock('identifiers');
  if id >= (select s.last_value from pushq.id s) then
    perform setval('pushq.id', (id >> 10 << 10) + (1::bigint << 40) + pushq.database_number());
  end if;
end $$;
