extension HealthCheck {
    static let settings = HealthCheck(
        "settings", "settings of the server that lose data, slow workers down or show secrets", needsSchema: false
    ) { connection in
        try await connection.findings(of: SettingRule.all)
    }
}

extension PostgresConnection {
    /// Finds the harmful values that sessions start with, and what undoes them where they are set. The values under a
    /// harmful one belong to its finding if they are harmful, too: it hides them, and its remedy alone would only
    /// uncover them.
    func findings(of rules: [SettingRule]) async throws -> [HealthFinding] {
        let server = try await serverValues(of: Set(rules.map(\.name)).sorted())
        let rows = try await execute(
            .harmfulSettings,
            [
                "names": .textArray(rules.map(\.name)), "patterns": .textArray(rules.map(\.harmful)),
                "server_names": .textArray(server.map(\.name)),
                "server_values": .optionalTextArray(server.map(\.value)),
                "at_start": .boolArray(server.map(\.isOfCommandLine)),
            ])
        var (findings, last) = ([HealthFinding](), (name: "", role: String?.none))
        for row in rows {
            let (rule, place) = (rules[Int(row.int8("number")) - 1], SettingPlace(row))
            let next = (rule.name, row.optionalText("role"))
            let (remedy, top) = (place.remedy(for: rule), findings.last)
            if let top, next == last, case (.sql(let first, let following), .sql) = (top.remedy, remedy) {
                findings[findings.count - 1] = HealthFinding(
                    top.severity, top.subject, top.evidence, .sql(first, then: following + remedy.steps))
            } else {
                findings.append(
                    HealthFinding(
                        rule.severity, rule.name + place.suffix, "is \(row.text("value")): \(rule.consequence)", remedy)
                )
            }
            last = next
        }
        return findings + ServerValue.notes(of: server)
    }
}

extension Statement {
    /// The harmful settings, and where each is set: for the server, for this database, or for logins that may use
    /// pushq. `local` loses nothing if no standby is synchronous.
    ///
    /// Sessions of a login get the first value that is stored for the login in this database, the login, this database,
    /// or all roles, and else the server's (PostgreSQL manual, 20.1.3). The first two are the login's own; the others
    /// are common to all. Of either, a value counts if it and all before it are harmful.
    fileprivate static let harmfulSettings = Statement(
        "harmful_settings",
        #"""
        with layer as (
          select c.name, c.value, true as is_stored, false as at_start, quote_ident(r.rolname) as role,
                 quote_ident(d.datname) as database, case when s.setdatabase = 0 then 2 else 1 end as depth
          from pg_db_role_setting s
          cross join unnest(s.setconfig) entry
          cross join lateral (
            select lower(split_part(entry, '=', 1)), substr(entry, strpos(entry, '=') + 1)) c(name, value)
          left join pg_roles r on r.oid = s.setrole
          left join pg_database d on d.oid = s.setdatabase
          where (s.setdatabase = 0 or d.datname = current_database())
            and (s.setrole = 0 or r.rolname = session_user
                 -- A login that only reads may be kept from writing, and so may an administrator.
                 or r.rolcanlogin
                    and case when c.name = 'default_transaction_read_only'
                             then not r.rolsuper
                                  and (pg_has_role(r.oid, to_regrole('pushq_worker'), 'usage')
                                       or pg_has_role(r.oid, to_regrole('pushq_producer'), 'usage'))
                             else has_schema_privilege(r.oid, to_regnamespace('pushq'), 'usage') end)
          union all
          select v.name, v.value, false, v.at_start, null, null, 3
          from unnest($server_names::text[], $server_values::text[], $at_start::boolean[]) v(name, value, at_start)),
        judged as (
          select l.*, rule.number, bool_and(rule.number is not null) over (
            partition by l.name, l.role order by l.depth) as is_reached
          from layer l
          left join unnest($names::text[], $patterns::text[]) with ordinality rule(name, harmful, number)
            on rule.name = l.name and l.value ~* rule.harmful
               and (lower(l.value) <> 'local' or current_setting('synchronous_standby_names') <> ''))
        select j.number, j.value, j.is_stored, j.at_start, j.role, j.database
        from judged j
        where j.is_reached
        order by j.name, j.role, j.depth
        limit 40
        """#)
}
