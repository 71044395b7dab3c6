extension Statement {
    /// The tenants of this database with the logins that call for them, and the tenants that have left it, or are just
    /// leaving it.
    fileprivate static let routerPlaces = Statement(
        "router_places",
        #"""
        select t.name as tenant, l.login, false as has_left
        from pushq.tenant t
        left join pushq.tenant_login l on l.tenant_id = t.id and not l.read_only
        union all
        select m.tenant, null, true
        from pushq.tenant_move m
        where m.leaves and m.stage in ('detached', 'moved')
        order by tenant, login
        """#)

    /// The functions that producers may call. A router does not have the types of the schema.
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

/// What a router needs to know about one database.
package struct RouterPart: Sendable {
    /// A function that producers may call.
    struct Function: Sendable, Equatable {
        /// The name in SQL, quoted if necessary.
        let name: String
        /// The arguments with their names, types and defaults.
        let arguments: String
        let result: String
        /// Whether its first argument is the queue, which decides where the router sends the call.
        let namesQueue: Bool
    }

    /// The number of the database.
    package let number: Int
    let functions: [Function]
    /// The tenants in the database, with the logins that may act for them.
    package let logins: [String: [String]]
    /// Tenants that have moved to another database, or are on their way to it. Their logins are known there.
    let gone: [String]
    /// The position of the database's host in its address: the one that takes writes.
    package let host: Int

    /// Whether producers call the same functions in both databases.
    package func hasFunctions(of other: RouterPart) -> Bool { functions == other.functions }
}

extension PostgresConnection {
    /// Returns what a router needs to know about this database.
    package func routerPart() async throws -> RouterPart {
        let (places, functions) = try await transaction {
            // The functions of all databases are compared as text.
            try await runScript("set local quote_all_identifiers = off")
            return (try await execute(.routerPlaces), try await execute(.routerFunctions))
        }
        var logins: [String: [String]] = [:]
        for row in places where !row.bool("has_left") {
            logins[row.text("tenant"), default: []] += row.optionalText("login").map { [$0] } ?? []
        }
        return RouterPart(
            number: functions.first.map { Int($0.int4("number")) } ?? 0,
            functions: functions.map {
                RouterPart.Function(
                    name: $0.text("name"), arguments: $0.text("arguments"), result: $0.text("result"),
                    namesQueue: $0.bool("names_queue"))
            },
            logins: logins, gone: places.filter { $0.bool("has_left") }.map { $0.text("tenant") }, host: host)
    }
}
