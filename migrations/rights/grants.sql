-- Run last by every `migrate`, with the rights of the schema's owner, in the transaction that changes functions: who
-- may do what. Changes only what is not so yet.
--
-- Nothing may be executed by everybody. Producers may execute the functions that are made for them, which are those
-- with `security definer`, and the rules for messages, which read no table. Producers and readers may read the views
-- of their own tenants. Nobody but the owner has rights on tables.
do $$
declare
  thing record;
begin
  for thing in
    select p.oid::regprocedure as name,
           p.prosecdef and p.prorettype <> 'trigger'::regtype or p.provolatile = 'i'
             or p.proname in ('message_problem', 'broadcast_problem') as is_for_producers,
           p.proname = 'caller' as is_for_views,
           has_function_privilege('public', p.oid, 'execute') as is_public, p.oid
    from pg_proc p
    where p.pronamespace = 'pushq'::regnamespace and p.proowner = current_user::regrole
  loop
    if thing.is_public then
      execute format('revoke execute on routine %s from public', thing.name);
    end if;
    if to_regrole('pushq_producer') is not null
      and (thing.is_for_producers or thing.is_for_views)
        <> has_function_privilege('pushq_producer', thing.oid, 'execute') then
      execute format(case when thing.is_for_producers or thing.is_for_views
                          then 'grant execute on routine %s to pushq_producer'
                          else 'revoke execute on routine %s from pushq_producer' end, thing.name);
    end if;
    if to_regrole('pushq_reader') is not null
      and thing.is_for_views <> has_function_privilege('pushq_reader', thing.oid, 'execute') then
      execute format(case when thing.is_for_views then 'grant execute on routine %s to pushq_reader'
                          else 'revoke execute on routine %s from pushq_reader' end, thing.name);
    end if;
  end loop;

  for thing in select rolname as role from pg_roles where rolname in ('pushq_producer', 'pushq_reader') loop
    if not has_schema_privilege(thing.role, 'pushq', 'usage') then
      execute format('grant usage on schema pushq to %I', thing.role);
    end if;
    if to_regclass('pushq.my_queues') is not null
      and not has_table_privilege(thing.role, 'pushq.my_queues', 'select') then
      execute format('grant select on pushq.my_queues, pushq.my_campaigns to %I', thing.role);
    end if;
  end loop;
end $$;
