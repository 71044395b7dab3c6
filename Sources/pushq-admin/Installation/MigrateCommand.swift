import PostgresStore
import Terminal

struct MigrateCommand: Command {
    static let name = "migrate"
    static let users = CommandUsers.operators(because: "the schema is shared by all tenants")
    static let summary = "Brings the database's schema to this program's version."
    static let discussion = """
        It applies the migrations that are missing, then the files of functions and views whose text has changed. It is \
        safe to run this again, and on several machines at the same time: one migrates, the others wait. A schema with a \
        migration that the program does not know is not changed, nor one with running workers of a newer version. Other \
        workers keep running meanwhile.

        If an installation has several databases, give each a number of its own before its first queue is created. \
        Identifiers carry it, so that no two databases use the same apns-id.
        """
    static let examples = [
        "migrate", "migrate --worker-role sender", "migrate --database-number 2",
        "migrate --database-url 'postgres://pushq@db.internal/pushq?sslmode=verify-full'",
    ]

    @Flag("Show what would be applied, and change nothing.") var dryRun
    @Option(
        "Also configure this database role for the sessions of workers. Only workers behind a transaction pooler need it; give them a role that no producer uses.",
        "ROLE")
    var workerRole: String?
    @Option("The number of this database among those of the installation: 0 to 1023, and 0 if it was never said.")
    var databaseNumber: DatabaseNumber?
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (role, number) = (workerRole, databaseNumber)
        let report = try await database.session { store in
            if let role, try await !store.hasRole(role) {
                throw Failure.noRole(role)
            }
            let migrator = Migrator(store, version: Version.current)
            let report = try await dryRun ? migrator.dryRun() : migrator.run()
            var numberGiven: DatabaseNumber?
            do {
                if let number, dryRun {
                    try await migrator.checkDatabaseNumber(number.value)
                } else if let number {
                    try await migrator.setDatabaseNumber(number.value)
                }
                numberGiven = number
                if let role, !dryRun { try await store.setUpWorkerRole(role) }
            } catch {
                // What was applied stays applied.
                show(report, role: nil, number: numberGiven, console)
                throw error
            }
            return report
        }
        show(report, role: role, number: number, console)
    }

    private func show(_ report: Migrator.Report, role: String?, number: DatabaseNumber?, _ console: Console) {
        var lines = (report.applied + report.definitions).map { "\(dryRun ? "would apply" : "applied") \($0)" }
        lines += report.dropped.map { "\(dryRun ? "would drop" : "dropped") \($0)" }
        if report.isUpToDate { lines = ["the schema is up to date"] }
        lines += report.advice
        if let role { lines.append("\(dryRun ? "would set" : "set") what workers need for role \(role)") }
        if let number { lines.append("\(dryRun ? "would give" : "gave") the database the number \(number.value)") }
        console.show(
            lines.joined(separator: "\n"),
            json: [
                "applied": .array(report.applied.map(JSON.string)),
                "definitions": .array(report.definitions.map(JSON.string)),
                "dropped": .array(report.dropped.map(JSON.string)),
                "advice": .array(report.advice.map(JSON.string)), "dry_run": .bool(dryRun),
                "worker_role": role.map(JSON.string) ?? .null,
                "database_number": number.map { .integer(Int($0.value)) } ?? .null,
            ])
    }
}

/// The number of a database within an installation.
struct DatabaseNumber: ArgumentValue, Sendable {
    let value: Int32

    static let placeholder = "NUMBER"

    static func parse(_ text: String) throws(InvalidValue) -> DatabaseNumber {
        guard let value = Int32(text), (0...1023).contains(value) else {
            throw InvalidValue("is not a number between 0 and 1023")
        }
        return DatabaseNumber(value: value)
    }
}
