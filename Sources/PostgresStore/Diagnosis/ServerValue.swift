/// The server's own value of a setting, which logins without a stored value get.
struct ServerValue {
    let name: String
    /// Nil if the session cannot see it.
    let value: String?
    /// Whether it was given to the command that started the server, and replaces the one of the files.
    let isOfCommandLine: Bool
    /// What hides it from the session.
    let hider: Hider?

    enum Hider: String, CaseIterable {
        /// The options of this program's connection.
        case client
        /// A value that is stored for the session's login.
        case login
        /// A value that is stored for the database or for all roles, so that no login gets the server's.
        case all
    }

    fileprivate init(_ row: Row) {
        name = row.text("name")
        value = row.optionalText("value")
        isOfCommandLine = row.bool("at_start")
        hider = row.optionalText("hider").flatMap(Hider.init)
    }

    /// The notes that say which values could not be seen, although logins get them.
    static func notes(of values: [ServerValue]) -> [HealthFinding] {
        Hider.allCases.filter { $0 != .all }.compactMap { hider in
            let names = values.filter { $0.value == nil && $0.hider == hider }.map(\.name)
            guard !names.isEmpty else { return nil }
            return HealthFinding(
                .note, names.joined(separator: ", "),
                "the server's value cannot be seen, because "
                    + (hider == .client ? "this command's own options replace it" : "this login has its own"),
                .advice(
                    hider == .client
                        ? "remove it from PGOPTIONS or the options of PUSHQ_DATABASE_URL"
                        : "run pushq-admin doctor as a superuser, or as an operator's login without settings of its own"
                ))
        }
    }
}

extension PostgresConnection {
    /// Reads the server's values: as a session sees them, or from the server's files where it cannot and its login may.
    func serverValues(of names: [String]) async throws(PostgresError) -> [ServerValue] {
        let seen = try await execute(.sessionStartValues, ["names": .textArray(names)])
        let unsure = seen.filter { !$0.bool("is_sure") && $0.bool("may_read_files") }.map { $0.text("name") }
        guard !unsure.isEmpty else { return seen.map(ServerValue.init) }
        return seen.filter { !unsure.contains($0.text("name")) }.map(ServerValue.init)
            + (try await execute(.filedServerValues, ["names": .textArray(unsure)])).map(ServerValue.init)
    }
}

extension Statement {
    /// The values that the session started with, because the terms of its statements replace some. Their source is then
    /// `session`, and it is not sure whether the value is the server's.
    fileprivate static let sessionStartValues = Statement(
        "session_start_values",
        #"""
        with stored as (
          select lower(split_part(entry, '=', 1)) as name, s.setrole = 0 as is_for_all
          from pg_db_role_setting s
          cross join unnest(s.setconfig) entry
          where s.setrole in (0, (select oid from pg_roles where rolname = session_user))
            and s.setdatabase in (0, (select oid from pg_database where datname = current_database())))
        select p.name, case when h.hider is null then p.reset_val end as value, p.source = 'command line' as at_start,
               h.hider, h.hider is null and p.source <> 'session' as is_sure,
               has_function_privilege('pg_show_all_file_settings()', 'execute')
                 and has_function_privilege('pg_read_file(text)', 'execute') as may_read_files
        from pg_settings p
        cross join lateral (
          select case when exists (select from stored s where s.name = p.name and s.is_for_all) then 'all'
                      when p.source = 'client' then 'client'
                      when exists (select from stored s where s.name = p.name) then 'login' end) h(hider)
        where p.name = any ($names)
        """#)

    /// The arguments of the server's command replace its files (PostgreSQL manual, 20.1.4). It keeps them in
    /// `postmaster.opts`, each in quotation marks.
    fileprivate static let filedServerValues = Statement(
        "filed_server_values",
        #"""
        select p.name, coalesce(start.value, file.value, p.boot_val) as value, start.value is not null as at_start,
               null::text as hider
        from pg_settings p
        cross join lateral (
          -- The last one counts.
          select substring(pg_read_file('postmaster.opts') from format(
            '.*"(?:-c"? ?"?|--)%s=([^"]*)"', replace(p.name, '_', '[-_]')))) start(value)
        left join lateral (
          select f.setting
          from pg_show_all_file_settings() f
          where lower(f.name) = p.name and f.applied
          order by f.seqno desc
          limit 1) file(value) on true
        where p.name = any ($names)
        """#)
}
