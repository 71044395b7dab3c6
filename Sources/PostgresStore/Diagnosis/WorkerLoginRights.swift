extension HealthCheck {
    static let workerLogins = HealthCheck(
        "worker_logins", "workers' logins that may do more than send, or that may not connect"
    ) { connection in
        let mighty = try await connection.execute(.mightyWorkerLogins).map { row in
            let login = row.text("login")
            return HealthFinding(
                .warning, "login \(login)",
                "runs workers and \(row.bool("is_superuser") ? "is a superuser" : "owns the schema"): whoever takes over a worker has these rights",
                .command("pushq-admin worker grant sender  # a login of its own, then workers connect as it"))
        }
        let barred = try await connection.execute(.barredWorkerLogins).map { row in
            HealthFinding(
                .warning, "login \(row.text("login"))",
                "is for workers, and PostgreSQL refuses it: \(row.text("reason"))", .sql(row.text("remedy")))
        }
        return mighty + barred
    }
}

extension Statement {
    /// The logins of workers that may not connect. A role that others are members of is a group, which never does.
    fileprivate static let barredWorkerLogins = Statement(
        "barred_worker_logins",
        #"""
        select r.rolname::text as login, case when r.rolcanlogin then 'connection limit 0' else 'nologin' end as reason,
               format('alter role %I %s;', r.rolname,
                      concat_ws(' ', case when not r.rolcanlogin then 'login' end,
                                case when r.rolconnlimit = 0 then 'connection limit -1' end)) as remedy
        from pg_auth_members m
        join pg_roles r on r.oid = m.member
        where m.roleid = to_regrole('pushq_worker') and (not r.rolcanlogin or r.rolconnlimit = 0)
          and not exists (select from pg_auth_members g where g.roleid = r.oid)
        order by r.rolname
        limit 20
        """#)

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
