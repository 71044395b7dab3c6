import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Two versions whose migrations are the same, and of whose functions one differs.
@Suite(.timeLimit(.minutes(10)))
struct `Migrating beside workers of a newer version` {
    private static let definitions = Definition.all.map { definition in
        definition.name == "functions/utc_text"
            ? Definition(name: definition.name, sql: definition.sql + "\n-- As it was before.\n") : definition
    }

    /// Makes a worker of this version show itself. Its row keeps the version with which it was first written.
    private func show(_ version: String, in connection: PostgresConnection) async throws {
        var report = WorkerReport(name: "w")
        report.version = version
        _ = try await connection.showWorker(7, report)
    }

    @Test func `leaves their functions alone until they have stopped, and then goes back`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await show("99.0.0", in: connection)
            let older = Migrator(connection, Migration.all, Self.definitions, version: "0.1.0")
            let refusal = MigrationError.newerWorkers("99.0.0", program: "0.1.0")
            await #expect(throws: refusal) { try await older.run() }
            await #expect(throws: refusal) { try await older.dryRun() }
            #expect(
                refusal.description.hasPrefix("workers of version 99.0.0 run, and this program, of version 0.1.0, "))
            #expect(try await Migrator(connection).dryRun().isUpToDate, "all functions are as they were")

            try await connection.removeWorker(7)
            #expect(try await older.run() == Migrator.Report(definitions: ["functions/utc_text"]))
        }
    }

    @Test func `does not wait for one that was killed`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await show("99.0.0", in: connection)
            try await connection.runScript("update pushq.worker set seen_at = now() - interval '21 seconds'")
            #expect(try await Migrator(connection, version: "0.1.0").run().isUpToDate)
        }
    }

    @Test func `compares versions by their numbers, and passes over a text that is no version`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            for (worker, program) in [("0.10.0", "0.9.0"), ("1.0.0", "0.99.99"), ("0.2.0-rc.1", "0.1.0")] {
                try await connection.removeWorker(7)
                try await show(worker, in: connection)
                await #expect(throws: MigrationError.newerWorkers(worker, program: program)) {
                    try await Migrator(connection, version: program).dryRun()
                }
            }
            for (worker, program) in [
                ("0.1.0", "0.1.0"), ("0.1.0", "0.1.1"), ("0.9.0", "0.10.0"), ("0.1.0-rc.1", "0.1.0"), ("", "0.1.0"),
                ("main", "0.1.0"), ("9.x.0", "0.1.0"), ("99.0.0", "main"),
            ] {
                try await connection.removeWorker(7)
                try await show(worker, in: connection)
                let report = try await Migrator(connection, version: program).dryRun()
                #expect(report.isUpToDate, "\(worker), \(program)")
            }
        }
    }

    @Test func `is no reason to refuse an empty database`() async throws {
        try await withEmptyDatabase { _, database in
            let migrator = Migrator(try await database.connect(), version: "0.1.0")
            #expect(try await migrator.dryRun().applied == Migration.all.map(\.name))
            #expect(try await migrator.run().applied == Migration.all.map(\.name))
        }
    }
}
