import Transport

/// Brings the schema `pushq` up to the version of this program.
///
/// Each migration is a transaction of its own, together with the row that records it. Whoever wants to apply one first takes a
/// lock and then looks what is missing, so that several may be started at once, and one that was interrupted is started again.
/// The lock belongs to the transaction: it also works behind a transaction pooler, and needs no cleaning up.
package struct Migrator {
    /// What was done, or in a dry run: what would be.
    package struct Report: Equatable, Sendable {
        /// The names of the migrations, in order; empty if the schema is up to date.
        package var applied: [String] = []
    }

    /// A lock that a migration needs is waited for no longer than this, since all who come later wait behind it. Then the
    /// migration is tried again.
    private static let lockTimeout = "1500ms"

    private let connection: PostgresConnection
    private let migrations: [Migration]

    /// - Parameter connection: of a role that may create schemas and tables; nobody else uses it meanwhile.
    package init(_ connection: PostgresConnection) {
        self.init(connection, Migration.all)
    }

    init(_ connection: PostgresConnection, _ migrations: [Migration]) {
        self.connection = connection
        self.migrations = migrations
    }

    /// Applies what is missing.
    /// - Parameter limit: for all of it, waiting for others included.
    /// - Throws: ``MigrationError``, or ``PostgresError`` of the connection. What was applied before stays applied.
    package func run(within limit: Duration = .seconds(300)) async throws -> Report {
        let deadline = connection.loop.now + limit
        var report = Report()
        while let name = try await applyNext(until: deadline) { report.applied.append(name) }
        return report
    }

    /// Looks what is missing and changes nothing.
    package func dryRun() async throws -> Report {
        let plan = try MigrationPlan(migrations, applied: try await appliedMigrations())
        return Report(applied: plan.pending.map(\.name))
    }

    // MARK: One migration

    /// Applies the first that is missing; nil if none is.
    private func applyNext(until deadline: ContinuousClock.Instant) async throws -> String? {
        var pause = Duration.milliseconds(100)
        while true {
            do {
                return try await connection.transaction { try await applyNext(within: timeLeft(until: deadline)) }
            } catch MigrationError.failed(_, _, .contended) where connection.loop.now + pause < deadline {
                // The lock was not had in time. The longer it takes, the less often others are made to wait.
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .seconds(5))
            }
        }
    }

    private func applyNext(within limit: Duration) async throws -> String? {
        try await takeLock(within: limit)
        let plan = try MigrationPlan(migrations, applied: try await appliedMigrations())
        guard let migration = plan.pending.first else { return nil }
        try await apply(migration, within: limit)
        return migration.name
    }

    /// One migrator at a time. The others wait as long as they have time.
    private func takeLock(within limit: Duration) async throws(PostgresError) {
        try await connection.runScript(
            """
            set local statement_timeout = 0; set local lock_timeout = 0;
            select pg_advisory_xact_lock(hashtextextended('pushq migration', 0));
            set local lock_timeout = '\(Self.lockTimeout)'
            """, within: limit)
    }

    private func apply(_ migration: Migration, within limit: Duration) async throws(MigrationError) {
        do throws(PostgresError) {
            if try await !hasTable() { try await connection.runScript(Self.makeTable) }
            _ = try await connection.execute(.restoreMigrations)
            try await connection.runScript(migration.sql, within: limit)
            _ = try await connection.execute(
                .recordMigration, [.int4(migration.version), .text(migration.name), .bytea(migration.checksum)])
            try await connection.runScript(Self.noteInSchema)
        } catch {
            let position = error.serverError?.position
            throw .failed(migration.name, line: position.map { migration.sql.line(ofCharacter: $0) }, error)
        }
    }

    private func timeLeft(until deadline: ContinuousClock.Instant) -> Duration {
        max(connection.loop.now.duration(to: deadline), .milliseconds(1))
    }

    // MARK: What the database has

    private func appliedMigrations() async throws(PostgresError) -> [AppliedMigration] {
        guard try await hasTable() else { return [] }
        return try await connection.execute(.appliedMigrations).map(AppliedMigration.init)
    }

    private func hasTable() async throws(PostgresError) -> Bool {
        try await connection.execute(.hasMigrationTable).first?.bool(0) ?? false
    }

    /// Keeps the rows in the schema itself, as a comment, so that a dump without data can be migrated.
    private static let noteInSchema = #"""
        do $$
        begin
          execute format('comment on table pushq.migration is %L',
                         (select string_agg(format('%s %s %s', version, name, encode(checksum, 'hex')), e'\n' order by version)
                          from pushq.migration));
        end $$
        """#

    private static let makeTable = #"""
        create schema if not exists pushq;
        create table pushq.migration (
          version    int         not null,
          name       text        not null,
          checksum   bytea       not null,
          applied_at timestamptz not null default now(),
          constraint migration_pkey primary key (version),
          constraint migration_checksum_length check (octet_length(checksum) = 32)
        )
        """#
}

extension Statement {
    fileprivate static let hasMigrationTable = Statement(
        "has_migration_table", "select to_regclass('pushq.migration') is not null")
    fileprivate static let appliedMigrations = Statement(
        "applied_migrations", "select version, name, checksum from pushq.migration union all \(noted) order by 1")
    /// Puts the rows back that a dump without data has lost.
    fileprivate static let restoreMigrations = Statement(
        "restore_migrations", "insert into pushq.migration (version, name, checksum) \(noted)")

    /// What the comment says, if the rows are lost.
    private static let noted = #"""
        select split_part(line, ' ', 1)::int, split_part(line, ' ', 2), decode(split_part(line, ' ', 3), 'hex')
        from regexp_split_to_table(obj_description('pushq.migration'::regclass, 'pg_class'), e'\n') line
        where not exists (select from pushq.migration)
        """#
    fileprivate static let recordMigration = Statement(
        "record_migration", "insert into pushq.migration (version, name, checksum) values ($1, $2, $3)")
}

extension String {
    /// The number of the line that a character is in; both are counted from 1.
    fileprivate func line(ofCharacter position: Int) -> Int {
        1 + unicodeScalars.prefix(position - 1).count { $0 == "\n" }
    }
}
