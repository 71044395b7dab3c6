extension HealthCheck {
    static let workerLogins = HealthCheck(
        "worker_logins", "workers whose login may do more than send"
    ) { connection in
        try await connection.execute(.mightyWorkerLogins).map { row in
            let login = row.text("login")
            return HealthFinding(
                .warning, "login \(login)",
                "runs workers and \(row.bool("is_superuser") ? "is a superuser" : "owns the schema"): whoever takes over a worker has these rights",
                .command("pushq-admin worker grant sender  # a login of its own, then workers connect as it"))
        }
    }
}

extension Statement {
    fileprivate static let mightyWorkerLogins = Statement(
        "mighty_worker_logins",
        #"""
        select r.rolname::text as login, bool_or(r.rolsuper) as is_superuser
        from pg_stat_activity a
        join pg_roles r on r.oid = a.usesysid
        where a.datname = current_database() and a.application_name like 'pushq work%'
          and (r.rolsuper or pg_has_role(r.oid, (select nspowner from pg_namespace where nspname = 'pushq'), 'usage'))
        group by r.rolname
        order by r.rolname
        """#)
}
