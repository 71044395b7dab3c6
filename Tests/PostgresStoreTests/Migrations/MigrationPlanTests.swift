import Testing

@testable import PostgresStore

@Suite struct `A plan to migrate` {
    private let migrations = (1...3).map { Migration(name: "000\($0)_step", sql: "select \($0)") }

    private func applied(_ versions: Int...) -> [AppliedMigration] {
        versions.map {
            AppliedMigration(version: Int32($0), name: "000\($0)_step", checksum: migrations[$0 - 1].checksum)
        }
    }

    @Test func `has what the database lacks, in order`() throws {
        #expect(try MigrationPlan(migrations, applied: []).pending.map(\.version) == [1, 2, 3])
        #expect(try MigrationPlan(migrations, applied: applied(1)).pending.map(\.version) == [2, 3])
        #expect(try MigrationPlan(migrations, applied: applied(1, 2, 3)).pending.isEmpty)
    }

    @Test func `is none for a schema that somebody else has made`() {
        let stranger = AppliedMigration(version: 9, name: "0009_stranger", checksum: [])
        #expect(throws: MigrationError.newerSchema("0009_stranger")) {
            try MigrationPlan(migrations, applied: applied(1, 2, 3) + [stranger])
        }
    }
}
