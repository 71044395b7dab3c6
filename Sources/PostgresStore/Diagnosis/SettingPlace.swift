/// Where a session's value of a setting comes from, which decides what changes it: the value of a role replaces that of
/// its database, and both replace the server's (PostgreSQL manual, 20.1.3).
enum SettingPlace: Equatable {
    /// The server's files, or PostgreSQL's default.
    case server
    /// The command that started the server, which replaces the files.
    case commandLine
    /// Set for a role, for a database, for a role in a database, or for all roles if both are nil. Both are quoted.
    case stored(role: String?, database: String?)

    /// - Parameter row: has the columns `is_stored`, `at_start`, `role` and `database`.
    init(_ row: Row) {
        self =
            if row.bool("is_stored") {
                .stored(role: row.optionalText("role"), database: row.optionalText("database"))
            } else {
                row.bool("at_start") ? .commandLine : .server
            }
    }

    /// ` of role shop`; nothing for the server.
    var suffix: String {
        switch self {
        case .server, .commandLine: ""
        case .stored(nil, nil): " of all roles"
        case .stored(let role, let database): " of \(Self.owner(role, database))"
        }
    }

    /// What makes a setting harmless for sessions that start afterwards. The statements also work in a session that is
    /// read-only if that is the setting.
    func remedy(for rule: SettingRule) -> HealthFinding.Remedy {
        switch self {
        // This statement is allowed in a read-only session, but not in a transaction, so it has a line of its own.
        case .server: .sql("alter system set \(rule.name) = \(rule.value);", then: ["select pg_reload_conf();"])
        case .commandLine:
            .advice("remove \(rule.name) from the command that starts the server (-c \(rule.name)=…), and restart it")
        case .stored(let role, let database):
            .sql(Self.writing("alter \(Self.owner(role, database)) reset \(rule.name);", rule))
        }
    }

    private static func writing(_ statement: String, _ rule: SettingRule) -> String {
        rule.name == "default_transaction_read_only" ? "begin read write; \(statement) commit;" : statement
    }

    private static func owner(_ role: String?, _ database: String?) -> String {
        switch (role, database) {
        case (nil, nil): "role all"
        case (nil, let database?): "database \(database)"
        case (let role?, nil): "role \(role)"
        case (let role?, let database?): "role \(role) in database \(database)"
        }
    }
}
