extension Statement {
    /// Where the tenants of this database are called, by whom; and those that are in neither of two databases now.
    fileprivate static let routerPlaces = Statement(
        "router_places",
        #"""
        select t.name as tenant, l.login, false as is_stopped
        from pushq.tenant t
        left join pushq.tenant_login l on l.tenant_id = t.id and not l.read_only
        union all
        select m.tenant, null, true
        from pushq.tenant_move m
        where m.leaves and m.stage = 'detached'
        order by tenant, login
        """#)

    /// What producers may call. Types of the schema are not there at a router.
    fileprivate static let routerFunctions = Statement(
        "router_functions",
        #"""
        select quote_ident(p.proname) as name, pg_get_function_arguments(p.oid) as arguments,
               pg_get_function_result(p.oid) as result, pushq.database_number() as number,
               coalesce(p.proargnames[1] = 'queue' and p.proargtypes[0] = 'text'::regtype, false) as names_queue
        from pg_proc p
        where p.pronamespace = 'pushq'::regnamespace and p.prokind = 'f'
          and has_function_privilege('pushq_producer', p.oid, 'execute')
          and not exists (
            select from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype) u
            join pg_type t on t.oid = u
            where t.typnamespace <> 'pg_catalog'::regnamespace)
        order by 1, 2
        """#)
}

/// What a router has to know of one database.
package struct RouterPart: Sendable {
    /// A function that producers may call.
    struct Function: Sendable, Equatable {
        /// As SQL has it, with quotes if it needs them.
        let name: String
        /// With their names, types and defaults.
        let arguments: String
        let result: String
        /// Its first argument says which queue it is about: so where it goes.
        let namesQueue: Bool
    }

    /// The number of the database.
    package let number: Int
    let functions: [Function]
    /// The tenants that are in it, with the logins that may act for them.
    package let logins: [String: [String]]
    /// Those that were taken out for their move to another database, and whose logins nobody knows for the moment.
    let stopped: [String]

    /// Whether producers call the same functions there.
    package func hasFunctions(of other: RouterPart) -> Bool { functions == other.functions }
}

extension PostgresConnection {
    /// What a router has to know of this database.
    package func routerPart() async throws(PostgresError) -> RouterPart {
        let places = try await execute(.routerPlaces)
        let functions = try await execute(.routerFunctions)
        var logins: [String: [String]] = [:]
        for row in places where !row.bool("is_stopped") {
            logins[row.text("tenant"), default: []] += row.optionalText("login").map { [$0] } ?? []
        }
        return RouterPart(
            number: functions.first.map { Int($0.int4("number")) } ?? 0,
            functions: functions.map {
                RouterPart.Function(
                    name: $0.text("name"), arguments: $0.text("arguments"), result: $0.text("result"),
                    namesQueue: $0.bool("names_queue"))
            },
            logins: logins, stopped: places.filter { $0.bool("is_stopped") }.map { $0.text("tenant") })
    }
}
