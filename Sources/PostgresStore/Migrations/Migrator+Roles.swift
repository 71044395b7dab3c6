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

    /// SQL: whether the login can grant only roles of which it has the admin option. Until version 16, who may create
    /// roles may also grant those of others.
    static let grantsNeedAdminOption = """
        not (current_setting('server_version_num')::int < 160000
             and exists (select from pg_roles where rolname = current_user and rolcreaterole))
        """

    /// All that an administrator has to run, in one row, so that nobody has to be asked twice. Whoever grants a role to
    /// others needs its admin option, which the creator of a role has.
    fileprivate static let roleAdvice = Statement(
        "role_advice",
        #"""
        with roles as (
          select name, to_regrole(name) as role
          from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) name),
        steps as (
          select 1 as step, format('create role %I nologin', name) as statement
          from roles
          where role is null
          union all
          select 2, format('grant pushq_owner to %I', current_user)
          from roles
          where name = 'pushq_owner' and (role is null or not pg_has_role(role, 'usage'))
          union all
          select 3, format('grant %s to %I with admin option', string_agg(name, ', ' order by name), current_user)
          from roles
          where name <> 'pushq_owner' and (role is null or not pg_has_role(role, 'member with admin option'))
            and \#(grantsNeedAdminOption)
          having count(*) > 0)
        select format('%I may not create all roles of pushq, or not grant them to others. Let an administrator of the '
                      'server run: %s', current_user, string_agg(statement, '; ' order by step, statement)) as advice
        from steps
        having count(*) > 0
        """#)
}
