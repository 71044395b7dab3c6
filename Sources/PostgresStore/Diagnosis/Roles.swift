extension HealthCheck {
    static let roles = HealthCheck(
        "roles", "roles of pushq that are missing", needsSchema: false
    ) { connection in
        try await connection.execute(.missingRoles).map { row in
            let role = row.text("role")
            return HealthFinding(
                .error, "role \(role)", "is missing: nobody can be granted its rights",
                .sql("create role \(role) nologin; -- then run: pushq-admin migrate"))
        }
    }
}

extension Statement {
    fileprivate static let missingRoles = Statement(
        "missing_roles",
        #"""
        select name as role
        from unnest(array['pushq_owner', 'pushq_worker', 'pushq_producer', 'pushq_reader']) name
        where to_regrole(name) is null
        """#)
}
