extension Statement {
    /// The tenants that are here, and those that a move from here or to here is about.
    fileprivate static let tenantPlaces = Statement(
        "tenant_places",
        #"""
        select coalesce(t.name, m.tenant) as tenant, t.id is not null as is_here, m.leaves, m.stage, m.peer,
               pushq.database_number() as number,
               (select count(*) from pushq.queue q where q.tenant_id = t.id) as queues
        from pushq.tenant t
        full join pushq.tenant_move m on m.tenant = t.name
        where $tenant::text is null or coalesce(t.name, m.tenant) = $tenant
        order by 1
        """#)

    fileprivate static let refuseMoved = Statement(
        "refuse_moved", "select pushq.refuse_moved($tenant, pushq.caller(), true)::text")
}

/// What a database knows about the place of a tenant.
package struct TenantPlace: Sendable {
    package let tenant: String
    /// Whether this database serves the tenant.
    package let isHere: Bool
    package let queueCount: Int
    /// The number of the database.
    package let number: Int
    /// The move of the tenant, if there is one.
    package let move: (stage: TenantMoveState.Stage, leaves: Bool, peer: String)?
}

extension PostgresConnection {
    /// Returns all tenants that this database knows of, or the one of that name, by name.
    package func tenantPlaces(named tenant: String? = nil) async throws(PostgresError) -> [TenantPlace] {
        try await execute(.tenantPlaces, ["tenant": .text(tenant)]).map { row in
            TenantPlace(
                tenant: row.text("tenant"), isHere: row.bool("is_here"), queueCount: row.count("queues"),
                number: Int(row.int4("number")),
                move: row.optionalText("stage").map {
                    (.init(stored: $0), row.bool("leaves"), row.text("peer"))
                })
        }
    }

    /// Throws if a tenant is not here because it is being moved or has moved. For operators.
    package func refuseMoved(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.refuseMoved, ["tenant": .text(tenant)])
    }
}
