import Cryptography

/// A file of functions, triggers or views, in `migrations/functions` or `migrations/views`. It is applied anew whenever
/// its text has changed, so its statements are `create or replace`.
///
/// A function that a column's default or a constraint uses is part of the table, and so of a migration.
struct Definition: Sendable {
    /// The file's path within `migrations/`, without its ending: `functions/send`.
    let name: String
    let sql: String

    /// The SHA-256 of its text in hexadecimal.
    var checksum: String {
        SHA256.digest(of: Array(sql.utf8)).map { byte in
            String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }.joined()
    }

    /// The comment on each object that it makes.
    var mark: String { "\(name) \(checksum)" }

    /// All of this program's, in the order in which they are applied: functions come before the views that use them.
    /// What a function's body names may come later.
    static let all = MigrationFiles.all
        .filter { $0.name.hasPrefix("functions/") || $0.name.hasPrefix("views/") }.map(Definition.init)
        .sorted { $0.name < $1.name }
}

/// A function, procedure, trigger or view in the database, with the definition that made it.
///
/// The catalogue itself keeps this: the comment on each such object names its file and that file's checksum. So a dump
/// carries it, with data or without.
struct DefinedObject: Equatable, Sendable {
    /// As `drop` takes it: `function`, `procedure`, `trigger` or `view`.
    let kind: String
    /// With its arguments and its schema: `pushq.token(pg_catalog.text)`.
    let identity: String
    /// The definition's name and checksum.
    let definition: String
    let checksum: String

    /// The comment on it.
    var mark: String { "\(definition) \(checksum)" }
    /// For people.
    var description: String { "\(kind) \(identity)" }

    init(kind: String, identity: String, definition: String, checksum: String) {
        self.kind = kind
        self.identity = identity
        self.definition = definition
        self.checksum = checksum
    }

    init(_ row: Row) {
        self.init(
            kind: row.text("type"), identity: row.text("identity"), definition: row.text("definition"),
            checksum: row.text("checksum"))
    }
}
