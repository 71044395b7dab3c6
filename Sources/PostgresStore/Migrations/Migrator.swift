import Transport

/// Updates the schema `pushq` to the version of this program: the roles, then the missing migrations, then the
/// functions and views whose text has changed, and the rights to use them.
///
/// Each migration is a transaction of its own, together with the row that records it. A migrator first takes a lock and
/// then reads what is missing. So several migrators may be started at once, and an interrupted one can be started
/// again. The lock belongs to the transaction: it also works behind a transaction pooler, and needs no cleaning up.
/// Functions and views are changed in one transaction, so that no session sees a part of a new version.
package struct Migrator {
    /// What was done, or what a dry run would do.
    package struct Report: Equatable, Sendable {
        /// The names of the migrations, in order.
        package var applied: [String] = []
        /// The names of the files of functions and views, in order: `functions/send`.
        package var definitions: [String] = []
        /// Functions, triggers and views that no file creates any more.
        package var dropped: [String] = []
        /// What an administrator of the server has to run, because this login lacks the rights.
        package var advice: [String] = []

        /// Whether there was nothing to do.
        package var isUpToDate: Bool { applied.isEmpty && definitions.isEmpty && dropped.isEmpty }
    }

    /// The maximum time that a migration waits for a lock, because all later sessions wait behind it. Then the
    /// migration is tried again.
    private static let lockTimeout = "1500ms"

    let connection: PostgresConnection
    let migrations: [Migration]
    let definitions: [Definition]
    /// The version of this program. If it is nil, the versions of workers do not matter.
    let version: String?

    /// - Parameters:
    ///   - connection: a connection of a role that may create schemas and tables. No other task may use it meanwhile.
    ///   - version: the version of this program. With it, the migrator changes nothing that workers of a newer version
    ///     use.
    package init(_ connection: PostgresConnection, version: String? = nil) {
        self.init(connection, Migration.all, Definition.all, version: version)
    }

    init(
        _ connection: PostgresConnection, _ migrations: [Migration], _ definitions: [Definition] = [],
        version: String? = nil
    ) {
        self.connection = connection
        self.migrations = migrations
        self.definitions = definitions
        self.version = version
    }

    /// Applies everything that is missing.
    /// - Parameter limit: the time limit for all of it, including waiting for other sessions.
    /// - Throws: ``MigrationError``, or ``PostgresError`` of the connection. What was applied before the error stays
    ///   applied.
    package func run(within limit: Duration = .seconds(300)) async throws -> Report {
        let deadline = connection.loop.now + limit
        var report = Report()
        try await checkDatabase()
        report.advice = try await step(until: deadline, prepareRoles)
        while let name = try await step(until: deadline, applyNext) { report.applied.append(name) }
        do {
            (report.definitions, report.dropped) = try await step(until: deadline) {
                try await applyDefinitions(droppingFirst: false, within: $0)
            }
        } catch MigrationError.failed(_, _, .server(let error)) where error.state.isAboutReplacing {
            (report.definitions, report.dropped) = try await step(until: deadline) {
                try await applyDefinitions(droppingFirst: true, within: $0)
            }
        }
        // From now on, pushq can tell a copy of the database from this one.
        try await connection.followTimeline()
        return report
    }

    /// Gives an installation's database its number, which its identifiers carry.
    /// - Parameter number: between 0 and 1023, and different for each database.
    /// - Throws: ``PostgresError``, with SQLSTATE PQ409 if the database has another number and identifiers with it are
    ///   in use.
    package func setDatabaseNumber(_ number: Int32, within limit: Duration = .seconds(30)) async throws {
        try await step(until: connection.loop.now + limit) { _ in
            try await becomeOwner()
            _ = try await connection.execute(.setDatabaseNumber, ["number": .int4(number)])
        }
    }

    /// Checks whether the database may get this number, and changes nothing.
    /// - Throws: as ``setDatabaseNumber(_:within:)``. Does not throw if there is no schema yet, or one that is older
    ///   than this check.
    package func checkDatabaseNumber(_ number: Int32) async throws {
        try await connection.transaction {
            guard try await connection.execute(.mayCheckDatabaseNumber).one().bool("may") else { return }
            try await becomeOwner()
            _ = try await connection.execute(.checkDatabaseNumber, ["number": .int4(number)])
        }
    }

    /// Returns what is missing, and changes nothing.
    package func dryRun() async throws -> Report {
        try await connection.transaction {
            try await connection.runScript(Self.plainNames)
            try await checkDatabase()
            let plan = try MigrationPlan(migrations, applied: try await appliedMigrations())
            try await checkWorkers()
            let definitions = DefinitionPlan(definitions, present: try await definedObjects())
            return Report(
                applied: plan.pending.map(\.name), definitions: definitions.changed.map(\.name),
                dropped: definitions.orphans.map(\.description))
        }
    }

    /// Checks whether pushq can use the database.
    private func checkDatabase() async throws {
        if let wrong = try await connection.wrongEncoding() { throw MigrationError.wrongEncoding(wrong.sentence) }
        if let sentence = try await connection.foreignSchema() { throw MigrationError.foreignSchema(sentence) }
        if let problem = try await connection.loginRights()?.ownerProblem { throw MigrationError.notAllowed(problem) }
    }

    // MARK: One transaction

    /// Makes PostgreSQL write names unquoted, because objects are recognised by their names.
    private static let plainNames = "set local quote_all_identifiers = off"

    /// Runs one step in a transaction of its own, while no other migrator runs. Retries if other sessions hold a lock
    /// that the step needs.
    /// - Parameter body: called with the time that it has.
    private func step<Result>(
        until deadline: ContinuousClock.Instant, _ body: (Duration) async throws -> Result
    ) async throws -> Result {
        var pause = Duration.milliseconds(100)
        // The migrator sets its own limits on how long statements may wait, and they also apply to the scripts.
        let terms = connection.terms
        connection.terms = nil
        defer { connection.terms = terms }
        while true {
            do {
                return try await connection.transaction {
                    let limit = timeLeft(until: deadline)
                    try await takeLock(within: limit)
                    return try await body(limit)
                }
            } catch  where Self.isContended(error) && connection.loop.now + pause < deadline {
                // The lock was not granted in time. The pause grows, so that other sessions have to wait less often.
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .seconds(5))
            }
        }
    }

    /// Whether the error is a lock that was not granted in time.
    private static func isContended(_ error: any Error) -> Bool {
        switch error {
        case MigrationError.failed(_, _, let error), MigrationError.dropFailed(let error): error.isContended
        case let error as PostgresError: error.isContended
        default: false
        }
    }

    /// Applies the first missing migration. Returns its name; nil if none is missing.
    private func applyNext(within limit: Duration) async throws -> String? {
        let plan = try MigrationPlan(migrations, applied: try await appliedMigrations())
        guard let migration = plan.pending.first else { return nil }
        try await becomeOwner()
        try await apply(migration, within: limit)
        return migration.name
    }

    /// Lets one migrator run at a time. The others wait as long as they have time.
    ///
    /// Once there is a table of migrations, migrators lock that, because no other login may. Before that there is only
    /// a lock that every login may take, so the error names its holder. A migrator that has waited for that lock may
    /// find the table.
    private func takeLock(within limit: Duration) async throws {
        try await connection.runScript(
            "set local statement_timeout = 0; set local lock_timeout = 0; \(Self.plainNames)")
        if try await !connection.mayLockMigrations() {
            if let holder = try await connection.execute(.tryFirstLock).one().optionalText("holder") {
                do throws(PostgresError) {
                    try await connection.runScript("select pg_advisory_xact_lock(\(Self.firstLock))", within: limit)
                } catch {
                    throw MigrationError.locked(by: holder, error)
                }
            }
        }
        if try await connection.mayLockMigrations() { try await lockMigrations(within: limit) }
        try await connection.runScript("set local lock_timeout = '\(Self.lockTimeout)'")
    }

    /// Locks the table of migrations. If another session holds the lock all the time, the error names it.
    private func lockMigrations(within limit: Duration) async throws {
        // The server gives up a little earlier than this program, which would lose the connection and could not ask.
        let wait = max(1, Int64((limit - min(limit / 10, .seconds(1))) / .milliseconds(1)))
        try await connection.runScript("set local lock_timeout = \(wait); savepoint before_lock")
        do throws(PostgresError) {
            try await connection.runScript("lock table pushq.migration in share row exclusive mode", within: limit)
        } catch {
            guard error.isContended else { throw error }
            try await connection.runScript("rollback to savepoint before_lock")
            // It may have ended at this moment.
            guard let row = try await connection.execute(.holderOfMigrations).first else { throw error }
            throw MigrationError.locked(by: row.text("holder"), error)
        }
        // What is made later has the transaction's own number, by which definitions are marked.
        try await connection.runScript("release savepoint before_lock")
    }

    /// The key of the lock that is used before there are tables.
    fileprivate static let firstLock = "hashtextextended('pushq migration', 0)"

    private func apply(_ migration: Migration, within limit: Duration) async throws(MigrationError) {
        do throws(PostgresError) {
            if try await !connection.hasMigrationTable() { try await connection.runScript(Self.makeTable) }
            _ = try await connection.execute(.restoreMigrations)
            try await connection.runScript(migration.sql, within: limit)
            _ = try await connection.execute(
                .recordMigration,
                [
                    "version": .int4(migration.version), "name": .text(migration.name),
                    "checksum": .bytea(migration.checksum),
                    "stops_older_workers": .bool(migration.stopsOlderWorkers),
                ])
            try await connection.runScript(Self.noteInSchema)
        } catch {
            throw .failed(migration.name, in: migration.sql, error)
        }
    }

    private func timeLeft(until deadline: ContinuousClock.Instant) -> Duration {
        max(connection.loop.now.duration(to: deadline), .milliseconds(1))
    }

    // MARK: What the database has

    func appliedMigrations() async throws(PostgresError) -> [AppliedMigration] {
        guard try await connection.hasMigrationTable() else { return [] }
        return try await connection.execute(.appliedMigrations).map(AppliedMigration.init)
    }

    /// Stores the rows in the schema itself, as a comment, so that a dump without data can be migrated.
    private static let noteInSchema = #"""
        do $$
        begin
          execute format('comment on table pushq.migration is %L',
                         (select string_agg(format('%s %s %s %s', version, name, encode(checksum, 'hex'),
                                                   stops_older_workers),
                                            e'\n' order by version)
                          from pushq.migration));
        end $$
        """#

    private static let makeTable = #"""
        create table pushq.migration (
          version             int         not null,
          name                text        not null,
          checksum            bytea       not null,
          stops_older_workers boolean     not null,  -- workers that do not know it must stop
          applied_at          timestamptz not null default now(),
          constraint migration_pkey primary key (version),
          constraint migration_checksum_length check (octet_length(checksum) = 32)
        )
        """#
}

extension PostgresConnection {
    /// Whether there is a table of migrations that this login may lock.
    fileprivate func mayLockMigrations() async throws(PostgresError) -> Bool {
        try await execute(.mayLockMigrations).one().bool("may")
    }

    /// Whether any migration was ever applied.
    func hasMigrationTable() async throws(PostgresError) -> Bool {
        try await execute(.hasMigrationTable).one().bool("is_there")
    }
}

extension Statement {
    fileprivate static let setDatabaseNumber = Statement(
        "set_database_number", "select pushq.set_database_number($number)")
    fileprivate static let mayCheckDatabaseNumber = Statement(
        "may_check_database_number",
        "select to_regprocedure('pushq.check_database_number(integer)') is not null as may")
    fileprivate static let checkDatabaseNumber = Statement(
        "check_database_number", "select pushq.check_database_number($number)")
    /// Reads the catalogs themselves: a session that has waited for an advisory lock may have cached that there is no
    /// such table.
    fileprivate static let mayLockMigrations = Statement(
        "may_lock_migrations",
        #"""
        select exists (
          select from pg_class c
          join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'pushq' and c.relname = 'migration' and has_table_privilege(c.oid, 'update')) as may
        """#)
    /// Takes the lock if it is free, or returns its holder.
    fileprivate static let tryFirstLock = Statement(
        "try_first_lock",
        #"""
        select case when not pg_try_advisory_xact_lock(k.key) then coalesce(
                 (select format('process %s of login %s', l.pid, a.usename)
                  from pg_locks l
                  left join pg_stat_activity a on a.pid = l.pid
                  where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
                    and l.database = (select d.oid from pg_database d where d.datname = current_database())
                    and (l.classid::bigint << 32 | l.objid::bigint) = k.key
                  limit 1),
                 'another session') end as holder
        from (select \#(Migrator.firstLock) as key) k
        """#)
    /// Another session that holds a lock on the table of migrations with which a migrator's own is in conflict.
    fileprivate static let holderOfMigrations = Statement(
        "holder_of_migrations",
        #"""
        select format('process %s of login %s', l.pid, a.usename) as holder
        from pg_locks l
        left join pg_stat_activity a on a.pid = l.pid
        where l.relation = 'pushq.migration'::regclass and l.granted
          and l.mode not in ('AccessShareLock', 'RowShareLock')
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.pid is distinct from pg_backend_pid()
        limit 1
        """#)
    fileprivate static let hasMigrationTable = Statement(
        "has_migration_table", "select to_regclass('pushq.migration') is not null as is_there")
    static let appliedMigrations = Statement(
        "applied_migrations",
        #"""
        select version, name, checksum from pushq.migration
        union all
        select version, name, checksum from (\#(noted)) n
        order by 1
        """#)
    /// Restores the rows that a dump without data has lost.
    fileprivate static let restoreMigrations = Statement(
        "restore_migrations", "insert into pushq.migration (version, name, checksum, stops_older_workers) \(noted)")

    /// The rows according to the comment, if the table is empty.
    private static let noted = #"""
        select part[1]::int as version, part[2] as name, decode(part[3], 'hex') as checksum,
               part[4]::boolean as stops_older_workers
        from regexp_split_to_table(obj_description('pushq.migration'::regclass, 'pg_class'), e'\n') line
        cross join string_to_array(line, ' ') part
        where not exists (select from pushq.migration)
        """#
    fileprivate static let recordMigration = Statement(
        "record_migration",
        "insert into pushq.migration (version, name, checksum, stops_older_workers) "
            + "values ($version, $name, $checksum, $stops_older_workers)")
}
