import Cryptography

/// A step of the schema: one file of `migrations/`, put into the program when it was built.
struct Migration: Sendable {
    /// The number that its file's name begins with.
    let version: Int32
    /// The file's name without its ending: `0003_jobs`.
    let name: String
    let sql: String

    /// The SHA-256 of its text: a file that was changed after it was applied is noticed.
    var checksum: [UInt8] { SHA256.digest(of: Array(sql.utf8)) }

    init(name: String, sql: String) {
        guard let version = Int32(name.prefix { $0.isNumber }) else {
            preconditionFailure("migrations/\(name).sql does not begin with its number")
        }
        self.version = version
        self.name = name
        self.sql = sql
    }

    /// All of this program's, in the order in which they are applied.
    static let all = EmbeddedMigrations.files.map(Migration.init).sorted { $0.version < $1.version }
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
        self.init(version: row.int4(0), name: row.text(1), checksum: row.bytes(2))
    }
}
