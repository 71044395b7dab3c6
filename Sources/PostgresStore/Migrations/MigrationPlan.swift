/// The migrations to apply, derived from the program's migrations and the database's. Does no I/O.
struct MigrationPlan {
    /// The migrations that the database lacks, in order.
    let pending: [Migration]

    /// - Throws: if this program may not change the schema.
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

/// The definitions to apply, and the objects that no longer belong to one. Does no I/O.
struct DefinitionPlan {
    /// The definitions whose text differs from what the database was made from, or of whose objects one is missing, in
    /// order.
    let changed: [Definition]
    /// The objects of deleted files. Objects that a changed file no longer creates are known only after it is applied.
    let orphans: [DefinedObject]

    init(_ definitions: [Definition], present: [DefinedObject]) {
        let made = Dictionary(grouping: present, by: \.definition)
        changed = definitions.filter { definition in
            guard let objects = made[definition.name] else { return true }
            let checksum = definition.checksum
            return objects.count < definition.objectCount || objects.contains { $0.checksum != checksum }
        }
        let names = Set(definitions.map(\.name))
        orphans = present.filter { !names.contains($0.definition) }
    }

    /// Returns what to drop and then apply if PostgreSQL cannot replace an object by another one of the same name: the
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

/// Why a schema was not changed.
package enum MigrationError: Error, Equatable, CustomStringConvertible {
    /// pushq cannot use the database, because of its encoding.
    case wrongEncoding(String)
    /// The schema `pushq` belongs to another program.
    case foreignSchema(String)
    /// The login lacks the rights to begin. The text is what an administrator of the server has to run.
    case notAllowed(String)
    /// The schema has a migration that this program does not know.
    case newerSchema(String)
    /// Workers of this version run, which is newer than the program's.
    case newerWorkers(String, program: String)
    /// A migration's text has changed since it was applied.
    case changed(applied: String, here: String)
    /// The database refused it and applied nothing of it, or no answer came and the result is unknown.
    case failed(String, line: Int?, PostgresError)
    /// Another session held the migrators' lock all the time.
    case locked(by: String, PostgresError)
    /// A function or view that no file creates any more, or that cannot be replaced in place, could not be dropped. No
    /// function was changed.
    case dropFailed(PostgresError)

    /// - Parameter text: the text of the file.
    static func failed(_ name: String, in text: String, _ error: PostgresError) -> Self {
        .failed(name, line: error.serverError?.position.map { text.line(ofCharacter: $0) }, error)
    }

    package var description: String {
        switch self {
        case .wrongEncoding(let sentence), .foreignSchema(let sentence): sentence
        case .notAllowed(let advice): advice
        case .newerSchema(let name):
            "the schema is newer than this program (it has migration \(name)); use the program that made it, or a later one"
        case .newerWorkers(let version, let own):
            "workers of version \(version) run, and this program, of version \(own), would bring back functions and rights "
                + "with which they do not work: use migrate of their version, or stop them first"
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
            // Leaves out the server's hint, which would drop objects that are not pushq's.
            "a function or view that this version lacks or has in another form could not be dropped, so no function "
                + "was changed: "
                + (error.serverError.map { "\($0.message) (\($0.state.code))" } ?? error.description)
                + "; if something of yours uses it, drop that first"
        }
    }
}

extension String {
    /// The number of the line that contains a character; both are counted from 1.
    fileprivate func line(ofCharacter position: Int) -> Int {
        1 + unicodeScalars.prefix(position - 1).count { $0 == "\n" }
    }
}
