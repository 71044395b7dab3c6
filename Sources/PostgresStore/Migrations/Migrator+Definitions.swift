extension Migrator {
    /// Applies the definitions that have changed, and drops what no definition creates any more, in one transaction.
    ///
    /// A function or view is replaced in place, so that running statements continue and rights on it stay. If
    /// PostgreSQL refuses the replacement (``SQLState/isAboutReplacing``), objects have to be dropped first.
    /// - Parameter isDroppingFirst: whether the objects of changed files are dropped before the files are applied.
    func applyDefinitions(
        droppingFirst isDroppingFirst: Bool, within limit: Duration
    ) async throws -> (applied: [String], dropped: [String]) {
        // Another migrator may have run meanwhile.
        _ = try MigrationPlan(migrations, applied: try await appliedMigrations())
        try await checkWorkers()
        let present = try await definedObjects()
        let plan = DefinitionPlan(definitions, present: present)
        try await becomeOwner()
        // The bodies of functions name other functions, and views that are created later.
        try await connection.runScript("set local check_function_bodies = off")
        var changed = plan.changed
        if isDroppingFirst {
            let (drop, apply) = plan.replacing(definitions, present: present)
            do throws(PostgresError) { try await self.drop(drop) } catch { throw MigrationError.dropFailed(error) }
            changed = apply
        }
        let result = try await apply(changed, within: limit)
        try await grantRights(within: limit)
        return result
    }

    private func apply(
        _ definitions: [Definition], within limit: Duration
    ) async throws(MigrationError) -> (applied: [String], dropped: [String]) {
        for definition in definitions { try await apply(definition, within: limit) }
        do throws(PostgresError) {
            let current = Set(self.definitions.map(\.mark))
            let unwanted = try await definedObjects().filter { !current.contains($0.mark) }
            try await drop(unwanted)
            return (definitions.map(\.name), unwanted.map(\.description))
        } catch {
            throw .dropFailed(error)
        }
    }

    /// Runs a definition, and marks the objects that it created.
    private func apply(_ definition: Definition, within limit: Duration) async throws(MigrationError) {
        do throws(PostgresError) {
            try await connection.runScript(definition.sql, within: limit)
            let marks = try await connection.execute(.markDefinition, ["mark": .text(definition.mark)])
            for mark in marks.map({ $0.text("statement") }) { try await connection.runScript(mark) }
        } catch {
            throw .failed(definition.name, in: definition.sql, error)
        }
    }

    private func drop(_ objects: [DefinedObject]) async throws(PostgresError) {
        guard !objects.isEmpty else { return }
        let statements = try await connection.execute(
            .dropDefined, ["kinds": .textArray(objects.map(\.kind)), "identities": .textArray(objects.map(\.identity))])
        for statement in statements.map({ $0.text("statement") }) { try await connection.runScript(statement) }
    }

    /// Returns the objects that definitions have created, recognised by their marks.
    func definedObjects() async throws(PostgresError) -> [DefinedObject] {
        try await connection.execute(.definedObjects).map(DefinedObject.init)
    }
}

extension SQLState {
    /// Whether PostgreSQL refused `create or replace` because the existing object has another kind, result, parameter
    /// or column.
    var isAboutReplacing: Bool {
        ["42P13", "42P16", "42809"].contains(code)
    }
}

extension Statement {
    /// The objects in schema pushq that definitions can create, with their marks; `version` is the transaction that
    /// last wrote the object.
    private static let objects = #"""
        select o.class, o.id, o.version, i.type, i.identity, obj_description(o.id, o.class::regclass::name) as mark
        from (
          select 'pg_proc' as class, p.oid as id, p.xmin as version
          from pg_proc p
          where p.pronamespace = to_regnamespace('pushq')
          union all
          select 'pg_class', c.oid, r.xmin
          from pg_class c
          join pg_rewrite r on r.ev_class = c.oid
          where c.relnamespace = to_regnamespace('pushq') and c.relkind = 'v'
          union all
          select 'pg_trigger', t.oid, t.xmin
          from pg_trigger t
          join pg_class c on c.oid = t.tgrelid
          where c.relnamespace = to_regnamespace('pushq') and not t.tgisinternal and t.tgparentid = 0) o
        cross join pg_identify_object(o.class::regclass, o.id, 0) i
        """#

    /// The objects with a mark: a file's name and its SHA-256.
    fileprivate static let definedObjects = Statement(
        "defined_objects",
        #"""
        select type, identity, split_part(mark, ' ', 1) as definition, split_part(mark, ' ', 2) as checksum
        from (\#(objects)) o
        where mark ~ '^(functions|views)/[A-Za-z0-9_]+ [0-9a-f]{64}$'
        order by type, identity
        """#)

    /// Returns statements that put `$mark` on what this transaction has created since it last marked something.
    fileprivate static let markDefinition = Statement(
        "mark_definition",
        #"""
        select format('comment on %s %s is %L', type, identity, $mark::text) as statement
        from (\#(objects)) o
        where version = pg_current_xact_id()::xid and not exists (
          select
          from pg_description d
          where d.classoid = o.class::regclass and d.objoid = o.id and d.objsubid = 0
            and d.xmin = pg_current_xact_id()::xid)
        """#)

    /// Returns statements that drop these objects, which may depend on each other, and nothing else.
    fileprivate static let dropDefined = Statement(
        "drop_defined",
        #"""
        with object as (select * from unnest($kinds::text[], $identities::text[]) o(kind, identity))
        select 'drop trigger ' || identity as statement from object where kind = 'trigger'
        union all
        select 'drop view ' || string_agg(identity, ', ') from object where kind = 'view' having count(*) > 0
        union all
        select 'drop routine ' || string_agg(identity, ', ')
        from object
        where kind in ('function', 'procedure')
        having count(*) > 0
        """#)
}
