extension HealthCheck {
    static let encoding = HealthCheck(
        "encoding", "a database that keeps texts in another encoding than UTF-8", needsSchema: false
    ) { connection in
        guard let wrong = try await connection.wrongEncoding() else { return [] }
        return [
            HealthFinding(
                .error, "database \(wrong.database)",
                "has the encoding \(wrong.encoding): a push that is not in UTF-8 stops the workers of all tenants",
                .command(WrongEncoding.remedy + "  # and move there; an encoding cannot be changed"))
        ]
    }
}

/// A database whose texts need not be UTF-8. With SQL_ASCII, PostgreSQL stores any bytes that a producer sends, and no
/// worker can read them (Character Set Support).
struct WrongEncoding: Equatable {
    let database: String
    let encoding: String

    static let remedy = "createdb --template template0 --encoding UTF8 --locale C NAME"

    var sentence: String {
        "database \(database) has the encoding \(encoding), and pushq needs UTF8: create another database with "
            + Self.remedy
    }
}

extension PostgresConnection {
    /// Returns what is wrong with the database's encoding; nil if it is UTF-8.
    func wrongEncoding() async throws(PostgresError) -> WrongEncoding? {
        let row = try await execute(.databaseEncoding).one()
        let encoding = row.text("encoding")
        return encoding == "UTF8" ? nil : WrongEncoding(database: row.text("database"), encoding: encoding)
    }
}

extension Statement {
    fileprivate static let databaseEncoding = Statement(
        "database_encoding",
        "select current_database()::text as database, getdatabaseencoding()::text as encoding")
}
