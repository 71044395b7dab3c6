extension Statement {
    /// What must be equal in both databases, and what must differ.
    fileprivate static let databaseTraits = Statement(
        "database_traits",
        #"""
        select pushq.database_number() as number, pushq.current_lineage() as lineage,
               (select md5(string_agg(
                  format('%s.%s %s %s', c.relname, a.attname, t.typname, a.atttypmod), ','
                  order by c.relname, a.attnum))
                from pg_class c
                join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                join pg_type t on t.oid = a.atttypid
                where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p')
                  and not c.relispartition) as tables,
               (select string_agg(format('%s %s', m.version, encode(m.checksum, 'hex')), ',' order by m.version)
                from pushq.migration m) as migrations,
               -- PostgreSQL 17 renamed this column.
               concat_ws(' ', d.datcollate, d.datctype, d.datlocprovider,
                         coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale'), d.encoding,
                         pg_database_collation_actual_version(d.oid)) as text_order
        from pg_database d
        where d.datname = current_database()
        """#)
}

/// The traits that decide whether a tenant can move from one database to another.
struct DatabaseTraits: Equatable {
    let number: Int32
    let lineage: String
    /// The columns of all tables in their order, and the applied migrations.
    let schema: String
    let textOrder: String
}

extension PostgresConnection {
    /// Returns what decides whether a tenant can move between this database and another.
    func databaseTraits() async throws(PostgresError) -> DatabaseTraits {
        let row = try await execute(.databaseTraits).one()
        return DatabaseTraits(
            number: row.int4("number"), lineage: row.text("lineage"),
            schema: "\(row.text("tables")) \(row.text("migrations"))",
            textOrder: row.text("text_order"))
    }
}
