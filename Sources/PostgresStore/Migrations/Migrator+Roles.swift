extension Migrator {
    /// Makes the roles and the schema as far as this login may, and gives the schema to its owner.
    /// - Returns: what is left to do for an administrator of the server, as lines.
    func prepareRoles(within limit: Duration) async throws -> [String] {
        try await run("rights/roles", within: limit)
        return try await connection.execute(.roleAdvice).map { $0.text("advice") }
    }

    /// Goes on with the rights of the schema's owner until the end of the transaction, so that what is made is the
    /// owner's.
    func becomeOwner() async throws {
        _ = try await connection.execute(.becomeOwner)
    }

    /// Grants and revokes what is not as it should be. As the owner.
    func grantRights(within limit: Duration) async throws {
        try await run("rights/grants", within: limit)
    }

    /// Runs a script that each `migrate` runs.
    private func run(_ name: String, within limit: Duration) async throws(MigrationError) {
        guard let sql = MigrationFiles.all.first(where: { $0.name == name })?.sql else {
            preconditionFailure("migrations/\(name).sql is not there")
        }
        do {
            try await connection.runScript(sql, within: limit)
        } catch {
            throw .failed(name, in: sql, error)
        }
    }
}

extension Statement {
    /// The lock belongs to the login, and so do the connection's limits: only rights change.
    fileprivate static let becomeOwner = Statement(
        "become_owner",
        #"""
        select set_config('role', pg_get_userbyid(n.nspowner), true)
        from pg_namespace n
        where n.nspname = 'pushq' and n.nspowner <> current_user::regrole and pg_has_role(n.nspowner, 'member')
        """#)

    fileprivate static let roleAdvice = Statement(
        "role_advice",
        #"""
        select format(
                 'role %I is missing, and %I may not create it. Let an administrator run: create role %1$I nologin',
                 name, current_user) as advice
        from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) name
        where to_regrole(name) is null
        union all
        select format('%I is not a member of pushq_owner, so the schema belongs to %1$I. Let an administrator run: '
                      'grant pushq_owner to %1$I', current_user)
        from pg_roles
        where rolname = 'pushq_owner' and not pg_has_role(oid, 'usage')
        """#)
}
