import Cryptography

/// A file of functions, triggers or views in `migrations/functions` or `migrations/views`. It is applied again whenever
/// its text has changed, so its statements are `create or replace`.
///
/// A function that a column's default or a constraint uses is part of the table, and so belongs to a migration.
struct Definition: Sendable {
    /// The file's path within `migrations/`, without its extension: `functions/send`.
    let name: String
    let sql: String

    /// The SHA-256 of the text in hexadecimal.
    var checksum: String {
        SHA256.digest(of: Array(sql.utf8)).map { byte in
            String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }.joined()
    }

    /// The number of objects that the definition creates.
    var objectCount: Int { sql.split(separator: "\n").count { $0.hasPrefix("create or replace ") } }

    /// The comment on each object that the definition creates.
    var mark: String { "\(name) \(checksum)" }

    /// All definitions of this program, in the order in which they are applied: functions before the views that use
    /// them. A function's body may name objects that are created later.
    static let all = MigrationFiles.all
        .filter { $0.name.hasPrefix("functions/") || $0.name.hasPrefix("views/") }.map(Definition.init)
        .sorted { $0.name < $1.name }
}

/// A function, procedure, trigger or view in the database, with the definition that created it.
///
/// The catalog itself stores this: the comment on each such object names its file and the file's checksum. So a dump
/// contains it, with or without data.
struct DefinedObject: Equatable, Sendable {
    /// The kind as in a `drop` statement: `function`, `procedure`, `trigger` or `view`.
    let kind: String
    /// The name with schema and arguments: `pushq.token(pg_catalog.text)`.
    let identity: String
    /// The definition's name and checksum.
    let definition: String
    let checksum: String

    /// The comment on the object.
    var mark: String { "\(definition) \(checksum)" }
    /// The object as messages name it.
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
