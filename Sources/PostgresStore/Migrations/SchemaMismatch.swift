/// Why a worker of this version cannot use the schema that it finds.
package enum SchemaMismatch: Error, Equatable, CustomStringConvertible {
    /// The database's encoding is not UTF-8.
    case wrongEncoding(String)
    /// The schema lacks this migration, or all of them.
    case olderSchema(missing: String)
    /// This migration, which the worker does not know, stops older workers.
    case olderWorker(stoppedBy: String)

    package var description: String {
        switch self {
        case .wrongEncoding(let sentence): sentence
        case .olderSchema(let name):
            "the schema is older than this worker (it lacks migration \(name)): run pushq-admin migrate, then start the worker again"
        case .olderWorker(let name):
            "this worker is older than the schema, and migration \(name) stops older workers: start a worker of the version that "
                + "has this migration, or a later one"
        }
    }

    /// The last migration that this program knows.
    static let newestKnown = Migration.all.last?.version ?? 0
}

extension PostgresConnection {
    /// Checks whether a worker of this version may start.
    package func checkSchema() async throws {
        if let wrong = try await wrongEncoding() { throw SchemaMismatch.wrongEncoding(wrong.sentence) }
        let isThere = try await hasMigrationTable()
        let applied = isThere ? Set(try await execute(.appliedMigrations).map { AppliedMigration($0).version }) : []
        if let missing = Migration.all.first(where: { !applied.contains($0.version) }) {
            throw SchemaMismatch.olderSchema(missing: missing.name)
        }
        if let mismatch = try await stoppingMismatch() { throw mismatch }
    }

    /// Returns why a worker of this version must stop; nil if it may continue. It reads only the table of migrations,
    /// which no migration changes.
    package func stoppingMismatch() async throws(PostgresError) -> SchemaMismatch? {
        let parameters: Parameters = ["newest_known": .int4(SchemaMismatch.newestKnown)]
        let row = try await execute(.stoppingMigration, parameters).first
        return row.map { .olderWorker(stoppedBy: $0.text("name")) }
    }
}

extension Statement {
    /// The first migration after `$newest_known` that stops older workers.
    fileprivate static let stoppingMigration = Statement(
        "stopping_migration",
        #"""
        select name
        from pushq.migration
        where version > $newest_known and stops_older_workers
        order by version
        limit 1
        """#
    )
}
