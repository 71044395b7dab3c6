extension HealthCheck {
    static let settings = HealthCheck(
        "settings", "settings of the server that lose data, slow workers down or show secrets", needsSchema: false
    ) { connection in
        let rules = SettingRule.all
        let parameters: Parameters = [
            "names": .textArray(rules.map(\.name)), "patterns": .textArray(rules.map(\.harmful)),
        ]
        return try await connection.execute(.harmfulSettings, parameters).map { row in
            let (rule, place) = (rules[Int(row.int8("number")) - 1], SettingPlace(row))
            return HealthFinding(
                rule.severity, rule.name + place.suffix, "is \(row.text("value")): \(rule.consequence)",
                place.remedy(for: rule.name, value: rule.value))
        }
    }
}

/// What values of a setting do to pushq, and which value it should have.
private struct SettingRule {
    let name: String
    /// A regular expression that the harmful values match, in each way to spell them.
    let harmful: String
    let severity: HealthFinding.Severity
    let consequence: String
    let value: String

    init(
        _ name: String, _ harmful: String, _ severity: HealthFinding.Severity, _ consequence: String, _ value: String
    ) {
        self.name = name
        self.harmful = harmful
        self.severity = severity
        self.consequence = consequence
        self.value = value
    }

    private static let off = "^(off|false|no|0)$"

    static let all = [
        SettingRule("fsync", off, .error, "a crash of the machine destroys the database", "on"),
        SettingRule("full_page_writes", off, .error, "a crash of the machine destroys the database", "on"),
        SettingRule("autovacuum", off, .error, "dead rows stay, and every claim gets slower by the hour", "on"),
        SettingRule("track_counts", off, .error, "autovacuum does not see what there is to do", "on"),
        SettingRule(
            "synchronous_commit", off, .warning,
            "a crash loses the last commits, so that pushes are sent again, even those that may be sent at most once",
            "on"),
        SettingRule(
            "synchronous_commit", "^local$", .warning,
            "a failover loses the last commits, so that pushes are sent again, even those that may be sent at most once",
            "on"),
        SettingRule(
            "default_transaction_isolation", "^(?!read committed$)", .warning,
            "producers fail on conflicts instead of waiting, and some of their calls are refused", "'read committed'"),
        SettingRule(
            "log_statement", "^(all|mod)$", .warning, "the server's log holds device tokens and payloads", "none"),
        SettingRule(
            "log_min_duration_statement", "^0 *[a-z]*$", .warning,
            "the server's log holds device tokens and payloads", "-1"),
        SettingRule(
            "client_min_messages", "^error$", .warning,
            "sessions do not learn that a commit is missing on the synchronous standby", "notice"),
    ]
}

extension Statement {
    /// The harmful settings, and where each is set: for the server, for this database, or for logins that may use
    /// pushq. `local` loses nothing if no standby is synchronous.
    fileprivate static let harmfulSettings = Statement(
        "harmful_settings",
        #"""
        with stored as materialized (
          -- A value for this database replaces one for all databases.
          select distinct on (s.setrole, c.name) s.setrole, s.setdatabase, c.name, c.value
          from pg_db_role_setting s
          cross join unnest(s.setconfig) entry
          cross join lateral (
            select lower(split_part(entry, '=', 1)), substr(entry, strpos(entry, '=') + 1)) c(name, value)
          where s.setdatabase = 0 or s.setdatabase = (select oid from pg_database where datname = current_database())
          order by s.setrole, c.name, s.setdatabase = 0),
        placed as (
          select s.name, s.value, true as is_stored, quote_ident(r.rolname) as role, quote_ident(d.datname) as database
          from stored s
          left join pg_roles r on r.oid = s.setrole
          left join pg_database d on d.oid = s.setdatabase
          where s.setrole = 0 or r.rolname = session_user
            or r.rolcanlogin and has_schema_privilege(r.oid, to_regnamespace('pushq'), 'usage')
          union all
          -- The value that the session started with, because the terms of its statements replace some. If it is not
          -- stored, it is the server's.
          select p.name, p.reset_val, false, null, null
          from pg_settings p
          where not exists (
            select from stored s left join pg_roles r on r.oid = s.setrole
            where s.name = p.name and (s.setrole = 0 or r.rolname = session_user)))
        select rule.number, p.value, p.is_stored, p.role, p.database
        from unnest($names::text[], $patterns::text[]) with ordinality rule(name, harmful, number)
        join placed p on p.name = rule.name and p.value ~* rule.harmful
        where p.value <> 'local' or current_setting('synchronous_standby_names') <> ''
        order by p.name, p.role, p.database
        limit 40
        """#)
}
