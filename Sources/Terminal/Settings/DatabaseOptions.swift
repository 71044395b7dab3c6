import Foundation

/// Which database a command speaks to.
package struct DatabaseOptions: ParameterGroup {
    @Option(
        "The database, as postgres://user@host/name. Else PUSHQ_DATABASE_URL, else libpq's PGHOST, PGDATABASE, …",
        "URL")
    var databaseUrl: ConnectionString?

    package init() {}

    /// The connection string for libpq. An empty one leaves all to libpq's own variables and defaults.
    package var connectionString: String {
        connectionString(environment: ProcessInfo.processInfo.environment)
    }

    func connectionString(environment: [String: String]) -> String {
        databaseUrl?.text ?? environment["PUSHQ_DATABASE_URL"] ?? ""
    }
}

/// A libpq connection string on a command line. It may hold a password, so errors do not repeat it.
struct ConnectionString: ArgumentValue {
    let text: String

    static let placeholder = "URL"
    static let isConfidential = true

    static func parse(_ text: String) throws(InvalidValue) -> ConnectionString {
        guard !text.isEmpty else { throw InvalidValue(Messages.empty) }
        return ConnectionString(text: text)
    }
}
