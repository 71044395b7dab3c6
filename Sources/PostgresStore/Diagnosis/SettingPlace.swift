/// Where a session's value of a setting comes from, which decides what changes it: the value of a role replaces that of
/// its database, and both replace the server's (PostgreSQL manual, 20.1.3).
enum SettingPlace: Equatable {
    /// The server's files, or PostgreSQL's default.
    case server
    /// Set for a role, for a database, for a role in a database, or for all roles if both are nil. Both are quoted.
    case stored(role: String?, database: String?)

    /// - Parameter row: has the columns `is_stored`, `role` and `database`.
    init(_ row: Row) {
        self =
            row.bool("is_stored")
            ? .stored(role: row.optionalText("role"), database: row.optionalText("database")) : .server
    }

    /// ` of role shop`; nothing for the server.
    var suffix: String {
        switch self {
        case .server: ""
        case .stored(nil, nil): " of all roles"
        case .stored(let role, let database): " of \(Self.owner(role, database))"
        }
    }

    /// The statements that make a setting harmless for sessions that start afterwards. They also work in a session
    /// that is read-only, if `isReadOnly` is set.
    /// - Parameter value: for the server, whose files the statements cannot edit.
    func remedy(for name: String, value: String, isReadOnly: Bool = false) -> HealthFinding.Remedy {
        switch self {
        // This statement is allowed in a read-only session, but not in a transaction.
        case .server: .sql("alter system set \(name) = \(value); select pg_reload_conf();")
        case .stored(let role, let database):
            .sql(Self.inTransaction("alter \(Self.owner(role, database)) reset \(name);", isReadOnly))
        }
    }

    private static func inTransaction(_ statement: String, _ isReadOnly: Bool) -> String {
        isReadOnly ? "begin read write; \(statement) commit;" : statement
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
