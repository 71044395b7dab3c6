extension PostgresConnection {
    /// Returns, in one line, why the schema `pushq` belongs to another program; nil if there is no such schema or it is
    /// pushq's.
    ///
    /// pushq's own schema has a table of migrations from its first table on. Before that it may exist without tables:
    /// an administrator created it, or a `migrate` that went no further. Objects that belong to an extension are
    /// ignored.
    func foreignSchema() async throws(PostgresError) -> String? {
        guard let row = try await execute(.foreignSchema).first else { return nil }
        let finding =
            row.bool("is_migration_table")
            ? "its table migration is not pushq's" : "it has the \(row.text("kind")) \(row.text("name"))"
        return "database \(row.text("database")) has another program's schema pushq: \(finding). Nothing was done; "
            + "use another database, or rename that schema"
    }
}

extension Statement {
    /// Recognises pushq's functions and views by their comments. It is one statement because another migrator may be
    /// running: the statement sees all that a transaction of that migrator has committed, or nothing.
    fileprivate static let foreignSchema = Statement(
        "foreign_schema",
        #"""
        with things as materialized (
          select case c.relkind when 'S' then 'sequence' when 'v' then 'view' when 'm' then 'view' when 'c' then 'type'
                                else 'table' end as kind,
                 c.relname as name, 'pg_class'::regclass as catalog, c.oid,
                 c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relname = 'migration' as is_migration_table
          from pg_class c
          join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'pushq' and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'c')
            and coalesce(obj_description(c.oid, 'pg_class'), '') !~ '^views/'
          union all
          select 'function', p.proname, 'pg_proc'::regclass, p.oid, false
          from pg_proc p
          join pg_namespace n on n.oid = p.pronamespace
          where n.nspname = 'pushq' and coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '^functions/'
          union all
          select 'type', t.typname, 'pg_type'::regclass, t.oid, false
          from pg_type t
          join pg_namespace n on n.oid = t.typnamespace
          where n.nspname = 'pushq' and t.typtype in ('d', 'e', 'r'))
        select current_database()::text as database, t.kind, t.name::text as name, t.is_migration_table
        from things t
        where not exists (
            select from pg_depend d where d.classid = t.catalog and d.objid = t.oid and d.deptype = 'e')
          and not exists (
            select
            from things m
            where m.is_migration_table
              and (select count(*)
                   from pg_attribute a
                   where a.attrelid = m.oid and not a.attisdropped
                     and a.attname in ('version', 'name', 'checksum', 'stops_older_workers', 'applied_at')) = 5)
        order by t.is_migration_table desc, t.kind = 'table' desc, t.kind, t.name
        limit 1
        """#)
}
