extension HealthCheck {
    static let roles = HealthCheck(
        "roles", "roles of pushq that are missing, or that this login may not grant to others", needsSchema: false
    ) { connection in
        try await connection.execute(.missingRoles).map { row in
            if row.bool("exists") {
                return HealthFinding(
                    .note, "roles",
                    "\(row.text("login")) may not grant them to others, so that tenant grant and worker grant "
                        + "fail: \(row.text("role"))",
                    .grant("grant \(row.text("role")) to \(row.text("login")) with admin option;"))
            }
            let role = row.text("role")
            return HealthFinding(
                .error, "role \(role)", "is missing: nobody can be granted its rights",
                .sql("create role \(role) nologin; -- then run: pushq-admin migrate"))
        }
    }
}

extension Statement {
    /// Before there is a schema, the check `schema` reports it, and `migrate` creates the roles, or says what to run.
    fileprivate static let missingRoles = Statement(
        "missing_roles",
        #"""
        with roles as (
          select name, to_regrole(name) as role
          from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) name)
        select name as role, false as exists, '' as login
        from roles
        where role is null and to_regnamespace('pushq') is not null
        union all
        select string_agg(name, ', ' order by name), true, quote_ident(current_user)
        from roles
        where name <> 'pushq_owner' and not pg_has_role(role, 'member with admin option')
          and \#(grantsNeedAdminOption)
        having count(*) > 0
        """#)
}
