extension HealthCheck {
    static let workerLogins = HealthCheck(
        "worker_logins", "workers' logins that may do more than send, that may not connect, or that have no rights"
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
    /// The logins of workers that may not connect, or that have none of a worker's rights. A role that others are
    /// members of is a group, which never connects. From PostgreSQL 16 on, it is the grant that inherits.
    fileprivate static let barredWorkerLogins = Statement(
        "barred_worker_logins",
        #"""
        select r.rolname::text as login,
               case when not r.rolcanlogin then 'nologin' when r.rolconnlimit = 0 then 'connection limit 0'
                    else 'it does not inherit the rights of its roles' end as reason,
               format('alter role %I %s;', r.rolname,
                      concat_ws(' ', case when not r.rolcanlogin then 'login' end,
                                case when r.rolconnlimit = 0 then 'connection limit -1' end,
                                case when not i.inherits then 'inherit' end))
                 || case when i.inherits or current_setting('server_version_num')::int < 160000 then ''
                         else format(' grant pushq_worker to %I with inherit true;', r.rolname) end as remedy
        from pg_auth_members m
        join pg_roles r on r.oid = m.member
        cross join lateral (select pg_has_role(r.oid, m.roleid, 'usage') as inherits) i
        where m.roleid = to_regrole('pushq_worker') and (not r.rolcanlogin or r.rolconnlimit = 0 or not i.inherits)
          and not exists (select from pg_auth_members g where g.roleid = r.oid) and not (\#(onlyAdministers))
        order by r.rolname
        limit \#(HealthCheck.queryLimit)
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
