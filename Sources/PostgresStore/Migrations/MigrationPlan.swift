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

/// Which definitions are to be applied, and which objects are not theirs any more. No I/O.
struct DefinitionPlan {
    /// Those whose text is not what the database was made from, in order.
    let changed: [Definition]
    /// Objects of files that are gone. What a changed file made, and makes no longer, is known only once it is applied.
    let orphans: [DefinedObject]

    init(_ definitions: [Definition], present: [DefinedObject]) {
        let made = Dictionary(grouping: present, by: \.definition)
        changed = definitions.filter { definition in
            guard let objects = made[definition.name] else { return true }
            let checksum = definition.checksum
            return objects.contains { $0.checksum != checksum }
        }
        let names = Set(definitions.map(\.name))
        orphans = present.filter { !names.contains($0.definition) }
    }

    /// What has to be dropped, and then applied, if PostgreSQL cannot replace an object by another one of its name: the
    /// objects of the changed files, and all views and triggers, which may depend on them.
    func replacing(_ definitions: [Definition], present: [DefinedObject]) -> (
        drop: [DefinedObject], apply: [Definition]
    ) {
        let names = Set(changed.map(\.name)).union(orphans.map(\.definition))
        let drop = present.filter { names.contains($0.definition) || $0.kind == "view" || $0.kind == "trigger" }
        let emptied = names.union(drop.map(\.definition))
        return (drop, definitions.filter { emptied.contains($0.name) })
    }
}

/// Why a schema was left as it is.
package enum MigrationError: Error, Equatable, CustomStringConvertible {
    /// The database is not one that pushq can be in.
    case wrongEncoding(String)
    /// Its schema `pushq` is somebody else's.
    case foreignSchema(String)
    /// The login may not begin. What an administrator of the server has to run.
    case notAllowed(String)
    /// It has a migration that this program does not know.
    case newerSchema(String)
    /// A migration is not what it was when it was applied.
    case changed(applied: String, here: String)
    /// The database refused it, and nothing of it was done; or nobody knows, because no answer came.
    case failed(String, line: Int?, PostgresError)
    /// Somebody has had the lock of the first migration for all of the time.
    case locked(by: String, PostgresError)
    /// A function or view that no file has any more could not be dropped; no function was changed.
    case dropFailed(PostgresError)

    /// - Parameter text: that of the file.
    static func failed(_ name: String, in text: String, _ error: PostgresError) -> Self {
        .failed(name, line: error.serverError?.position.map { text.line(ofCharacter: $0) }, error)
    }

    /// Whether a lock was not had in time.
    var isContended: Bool {
        switch self {
        case .failed(_, _, .contended), .dropFailed(.contended): true
        default: false
        }
    }

    package var description: String {
        switch self {
        case .wrongEncoding(let sentence), .foreignSchema(let sentence): sentence
        case .notAllowed(let advice): advice
        case .newerSchema(let name):
            "the schema is newer than this program (it has migration \(name)); use the program that made it, or a later one"
        case .changed(let applied, let here):
            "migration \(applied) was applied with a different text than this program has for \(here); "
                + "nothing was done: restore the file and put the change into a new migration"
        case .failed(let name, let line, let error):
            "\(name.contains("/") ? "" : "migration ")\(name) failed\(line.map { " at line \($0)" } ?? "")"
                + (error.mayBeDone ? ": " : ", nothing of it was done: ")
                + (error.serverError?.description ?? error.description)
        case .locked(let holder, let error):
            "another migrate seems to be running: \(holder) holds its lock; wait for it, or end that session if it is no "
                + "migrate (\(error))"
        case .dropFailed(let error):
            // Without the server's hint, which would drop what is not pushq's.
            "a function or view that this version no longer has could not be dropped, so no function was changed: "
                + (error.serverError.map { "\($0.message) (\($0.state.code))" } ?? error.description)
                + "; if something of yours uses it, drop that first"
        }
    }
}

extension String {
    /// The number of the line that a character is in; both are counted from 1.
    fileprivate func line(ofCharacter position: Int) -> Int {
        1 + unicodeScalars.prefix(position - 1).count { $0 == "\n" }
    }
}
