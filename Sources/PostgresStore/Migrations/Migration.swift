import Cryptography

/// A step of the schema: one numbered file of `migrations/`, embedded in the program at build time.
///
/// Migrations create tables. Functions and views have files of their own: ``Definition``.
struct Migration: Sendable {
    /// The number at the beginning of the file's name.
    let version: Int32
    /// The file's name without its extension: `0003_jobs`.
    let name: String
    let sql: String

    /// The SHA-256 of the text. With it, the migrator notices a file that was changed after it was applied.
    var checksum: [UInt8] { SHA256.digest(of: Array(sql.utf8)) }

    /// Whether workers that do not know this migration must stop when it is applied. The file's first line says so.
    var stopsOlderWorkers: Bool { sql.hasPrefix(Self.directive + "\n") }

    /// The first line of a migration that stops older workers.
    static let directive = "-- pushq: older workers must stop"

    init(name: String, sql: String) {
        guard let version = Int32(name.prefix { $0.isNumber }) else {
            fatalError("migrations/\(name).sql does not begin with its number")
        }
        self.version = version
        self.name = name
        self.sql = sql
    }

    /// All migrations of this program, in the order in which they are applied.
    static let all = MigrationFiles.all.filter { !$0.name.contains("/") }.map(Migration.init)
        .sorted { $0.version < $1.version }
}

/// A row of `pushq.migration`.
struct AppliedMigration: Equatable, Sendable {
    let version: Int32
    let name: String
    let checksum: [UInt8]

    init(version: Int32, name: String, checksum: [UInt8]) {
        self.version = version
        self.name = name
        self.checksum = checksum
    }

    init(_ row: Row) {
        self.init(version: row.int4("version"), name: row.text("name"), checksum: row.bytes("checksum"))
    }
}
