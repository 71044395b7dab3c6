extension HealthCheck {
    static let schema = HealthCheck(
        "schema", "migrations, functions and views that are not those of this program", needsSchema: false
    ) { connection in
        let report: Migrator.Report
        do {
            report = try await Migrator(connection).dryRun()
        } catch MigrationError.wrongEncoding {
            // The check `encoding` reports this.
            return []
        } catch MigrationError.foreignSchema(let sentence) {
            return [HealthFinding(.error, "schema", sentence, .advice("give the address of pushq's database"))]
        } catch let error as MigrationError {
            return [HealthFinding(.error, "schema", "\(error)", .advice("use pushq-admin of the schema's version"))]
        }
        if !report.applied.isEmpty {
            return [
                HealthFinding(
                    .error, "schema", "lacks \(Words.names(Array(report.applied.prefix(3)), of: report.applied.count))",
                    .command("pushq-admin migrate"))
            ]
        }
        let changed = report.definitions + report.dropped
        guard !changed.isEmpty else { return [] }
        return [
            HealthFinding(
                .warning, "schema",
                "has other versions of \(Words.names(Array(changed.prefix(3)), of: changed.count)) than this program",
                // Their texts do not say which of the two is newer.
                .advice(
                    "run pushq-admin migrate of the newest version in use; an older one brings older functions back"))
        ]
    }
}
