import PostgresStore
import Terminal

struct MigrateCommand: Command {
    static let name = "migrate"
    static let summary = "Brings the database's schema to this program's version."
    static let discussion = """
        Safe to run again, and from several machines at once: one does it, the others wait. A schema newer than the \
        program is left alone.
        """
    static let examples = ["migrate", "migrate --database-url postgres://pushq@db.internal/pushq"]

    @Flag("Say what would be applied, and change nothing.") var dryRun
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let dryRun = dryRun
        let report = try await database.session { store in
            let migrator = Migrator(store)
            return dryRun ? try await migrator.dryRun() : try await migrator.run()
        }
        let lines = report.applied.map { "\(dryRun ? "would apply" : "applied") \($0)" }
        console.show(
            lines.isEmpty ? "the schema is up to date" : lines.joined(separator: "\n"),
            json: ["applied": .array(report.applied.map(JSON.string)), "dry_run": .bool(dryRun)])
    }
}
