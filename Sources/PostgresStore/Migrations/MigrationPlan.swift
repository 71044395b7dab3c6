/// What is to be applied, from what the program brings and what the database has. No I/O.
struct MigrationPlan {
    /// Those that the database lacks, in order.
    let pending: [Migration]

    /// - Throws: when the schema is not one that this program may touch.
    init(_ migrations: [Migration], applied: [AppliedMigration]) throws(MigrationError) {
        let known = Dictionary(uniqueKeysWithValues: migrations.map { ($0.version, $0) })
        for row in applied {
            guard let migration = known[row.version] else { throw .newerSchema(row.name) }
            guard migration.checksum == row.checksum else { throw .changed(applied: row.name, here: migration.name) }
        }
        let present = Set(applied.map(\.version))
        pending = migrations.filter { !present.contains($0.version) }
    }
}

/// Why a schema was left as it is.
package enum MigrationError: Error, Equatable, CustomStringConvertible {
    /// It has a migration that this program does not know.
    case newerSchema(String)
    /// A migration is not what it was when it was applied.
    case changed(applied: String, here: String)
    /// The database refused it; nothing of it was done.
    case failed(String, line: Int?, PostgresError)

    package var description: String {
        switch self {
        case .newerSchema(let name):
            "the schema is newer than this program (it has migration \(name)); use the program that made it, or a later one"
        case .changed(let applied, let here):
            "migration \(applied) was applied with another text than this program has for \(here); "
                + "nothing was done: bring the file back to what it was and put the change into a new migration"
        case .failed(let name, let line, let error):
            "migration \(name) failed\(line.map { " at line \($0)" } ?? ""), nothing of it was done: "
                + (error.serverError?.description ?? error.description)
        }
    }
}
