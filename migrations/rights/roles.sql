-- Every `migrate` runs this first, with the rights of its login. It creates the roles and the schema, and gives the
-- schema to its owner.
--
-- Roles belong to the whole server, and installations in several of its databases share them. What a role may do, and
-- for which tenant, is stored in each database. Without the right to create roles, this does what it can, and `migrate`
-- says what is missing.
do $$
declare
  thing      record;
  was_member boolean;
begin
  for thing in
    select name
    from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) name
    where to_regrole(name) is null
  loop
    begin
      execute format('create role %I nologin', thing.name);
    exception
      when insufficient_privilege then null;
      -- An installation in another database creates the role at this moment.
      when duplicate_object or unique_violation then null;
    end;
  end loop;

  if to_regnamespace('pushq') is null then
    create schema pushq;
  end if;
  if not exists (select from pg_roles where rolname = 'pushq_owner' and pg_has_role(oid, 'usage')) then
    was_member := exists (select from pg_roles where rolname = 'pushq_owner' and pg_has_role(oid, 'member'));
    begin
      grant pushq_owner to current_user;
    exception
      when insufficient_privilege or undefined_object then null;
      -- A `migrate` in another database grants it at this moment.
      when unique_violation then null;
    end;
    if not exists (select from pg_roles where rolname = 'pushq_owner' and pg_has_role(oid, 'member')) then
      return;
    end if;
    -- Everything after the first tables would be refused, since pushq_owner owns them.
    if not pg_has_role('pushq_owner', 'usage') then
      raise exception using errcode = 'PQ400',
        message = format('%I would have none of the rights of pushq_owner, since it does not inherit those of its '
                         'roles', current_user),
        hint = format(
          'run in PostgreSQL: alter role %1$I inherit%2$s; then migrate again', current_user,
          -- Since then, each membership has an option of its own, which stays as it was.
          case when was_member and current_setting('server_version_num')::int >= 160000
               then format('; grant pushq_owner to %I with inherit true', current_user) end);
    end if;
  end if;
  -- Objects that this login created before the owner existed: a dump that was restored without owners, or a first
  -- migration without roles. The schema comes first, so that the owner may have objects in it.
  if (select nspowner from pg_namespace where nspname = 'pushq') = current_user::regrole then
    alter schema pushq owner to pushq_owner;
  end if;
  for thing in
    select format('table %s', c.oid::regclass) as name
    from pg_class c
    where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
      and c.relowner = current_user::regrole
      and not exists (
        select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')
          and d.refclassid = 'pg_class'::regclass and c.relkind = 'S')
    union all
    -- Leaves out functions that others have put into the schema: pushq's functions have a mark, or columns use them.
    select format('routine %s', p.oid::regprocedure)
    from pg_proc p
    where p.pronamespace = 'pushq'::regnamespace and p.proowner = current_user::regrole
      and (p.proname in ('today', 'device_kind') or obj_description(p.oid, 'pg_proc') ~ '^functions/')
  loop
    execute format('alter %s owner to pushq_owner', thing.name);
  end loop;
end $$;
