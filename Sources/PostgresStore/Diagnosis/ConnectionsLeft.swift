extension HealthCheck {
    static let connections = HealthCheck(
        "connections", "a server, database or login that has few connections left", needsSchema: false
    ) { connection in
        try await connection.execute(.connectionsLeft).map { row in
            let (used, limit) = (row.count("used"), row.count("limited"))
            return HealthFinding(
                used * 100 >= limit * 95 ? .error : .warning, row.text("subject"),
                "\(used) of \(limit) connections are in use; a worker needs 5 for each engine", .sql(row.text("remedy"))
            )
        }
    }
}

extension Statement {
    /// The server, database and logins that use four fifths of their connections. The superusers' reserve does not
    /// count as available.
    fileprivate static let connectionsLeft = Statement(
        "connections_left",
        #"""
        with session as materialized (
          select datname, usename from pg_stat_activity where datid is not null and usename is not null),
        used as (
          select 'server' as subject, (select count(*) from session) as used,
                 current_setting('max_connections')::bigint
                   - current_setting('superuser_reserved_connections')::bigint as limited,
                 format('alter system set max_connections = %s; -- then restart the server',
                        current_setting('max_connections')::int * 2) as remedy
          union all
          select 'database ' || d.datname, count(s), d.datconnlimit,
                 format('alter database %I connection limit -1;', d.datname)
          from pg_database d left join session s on s.datname = d.datname
          where d.datname = current_database() and d.datconnlimit > 0
          group by d.datname, d.datconnlimit
          union all
          select 'login ' || r.rolname, count(s), r.rolconnlimit,
                 format('alter role %I connection limit -1;', r.rolname)
          from pg_roles r join session s on s.usename = r.rolname
          where r.rolconnlimit > 0
          group by r.rolname, r.rolconnlimit)
        select subject, used, limited, remedy
        from used
        where used * 100 >= limited * 80
        order by subject
        """#)
}
