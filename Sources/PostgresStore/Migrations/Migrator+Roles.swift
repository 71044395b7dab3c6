extension Migrator {
    /// Creates the roles and the schema as far as this login may, and gives the schema to its owner.
    /// - Returns: what an administrator of the server still has to do, as lines.
    /// - Throws: ``MigrationError/notAllowed(_:)`` if the login may not even create the schema.
    func prepareRoles(within limit: Duration) async throws -> [String] {
        if let advice = try await advice(), advice.isUrgent { throw MigrationError.notAllowed(advice.text) }
        try await run("rights/roles", within: limit)
        return [try await advice()?.text].compactMap(\.self)
    }

    private func advice() async throws(PostgresError) -> (text: String, isUrgent: Bool)? {
        try await connection.execute(.roleAdvice).first.map { ($0.text("advice"), $0.bool("is_urgent")) }
    }

    /// Takes the rights of the schema's owner until the end of the transaction, so that the owner owns what is created.
    func becomeOwner() async throws {
        _ = try await connection.execute(.becomeOwner)
    }

    /// Grants missing rights and revokes wrong ones. Call it as the owner.
    func grantRights(within limit: Duration) async throws {
        try await run("rights/grants", within: limit)
    }

    /// Runs a script that every `migrate` runs.
    private func run(_ name: String, within limit: Duration) async throws(MigrationError) {
        guard let sql = MigrationFiles.all.first(where: { $0.name == name })?.sql else {
            fatalError("migrations/\(name).sql is not there")
        }
        do {
            try await connection.runScript(sql, within: limit)
        } catch {
            throw .failed(name, in: sql, error)
        }
    }
}

extension Statement {
    /// Sets the role only: the lock and the connection's limits stay with the login.
    fileprivate static let becomeOwner = Statement(
        "become_owner",
        #"""
        select set_config('role', pg_get_userbyid(n.nspowner), true)
        from pg_namespace n
        where n.nspname = 'pushq' and n.nspowner <> current_user::regrole and pg_has_role(n.nspowner, 'member')
        """#)

    /// SQL: whether the login can grant only roles of which it has the admin option. Before version 16, a login that
    /// may create roles may also grant other roles.
    static let grantsNeedAdminOption = """
        not (current_setting('server_version_num')::int < 160000
             and exists (select from pg_roles where rolname = current_user and rolcreaterole))
        """

    /// All that an administrator has to run, in one row, so that one request is enough. If it is urgent, nothing can be
    /// done without it. To grant a role, a login needs its admin option, which the role's creator has.
    fileprivate static let roleAdvice = Statement(
        "role_advice",
        #"""
        with roles as (
          select n.name, to_regrole(n.name) as role, to_regrole(n.name) is null and not m.may_create as is_missing
          from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) n(name)
          cross join (
            select rolsuper or rolcreaterole as may_create from pg_roles where rolname = current_user) m),
        steps as (
          select 0 as step, format('grant create on database %I to %I', current_database(), current_user) as statement
          where to_regnamespace('pushq') is null and not has_database_privilege(current_database(), 'create')
          union all
          select 1, format('create role %I nologin', name)
          from roles
          where is_missing
          union all
          select 2, format('grant pushq_owner to %I', current_user)
          from roles
          where name = 'pushq_owner' and (is_missing or not pg_has_role(role, 'usage')) and \#(grantsNeedAdminOption)
          union all
          select 3, format('grant %s to %I with admin option', string_agg(name, ', ' order by name), current_user)
          from roles
          where name <> 'pushq_owner' and (is_missing or not pg_has_role(role, 'member with admin option'))
            and \#(grantsNeedAdminOption)
          having count(*) > 0),
        -- The login of a worker or producer is not meant to own the schema.
        narrower as (
          select string_agg(name, ' and ' order by name) as names
          from roles
          where name <> 'pushq_owner' and pg_has_role(role, 'usage')
            and not exists (select from roles o where o.name = 'pushq_owner' and pg_has_role(o.role, 'usage'))
          having count(*) between 1 and 2)
        select format('%I has the rights of %s only. Run migrate as a login with those of pushq_owner',
                      current_user, n.names) as advice, false as is_urgent
        from narrower n
        union all
        select format('%I may not %s. Let an administrator of the server run: %s; then migrate again',
                      current_user,
                      case when min(step) = 0 then 'make the schema in this database'
                           else 'create all roles of pushq, or not grant them to others' end,
                      string_agg(statement, '; ' order by step, statement)) as advice,
               min(step) = 0 as is_urgent
        from steps
        where not exists (select from narrower)
        having count(*) > 0
        """#)
}
