import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10)))
struct `Migrating` {
    private static let two = [
        Migration(name: "0001_first", sql: "create table pushq.first (n int)"),
        Migration(name: "0002_second", sql: "create table pushq.second (n int);\nalter table pushq.first add m int"),
    ]

    @Test func `applies this program's migrations, then nothing`() async throws {
        try await withEmptyDatabase { _, database in
            let migrator = Migrator(try await database.connect())
            let names = Migration.all.map(\.name)
            #expect(names.count == Set(Migration.all.map(\.version)).count)
            let expected = Migrator.Report(applied: names, definitions: Definition.all.map(\.name))
            #expect(try await migrator.dryRun() == expected)
            #expect(try await migrator.run() == expected)
            #expect(try await migrator.dryRun().isUpToDate)
            #expect(try await migrator.run().isUpToDate)
        }
    }

    /// With SQL_ASCII, which `initdb` chooses in the locale C, one push that is not UTF-8 would stop all workers.
    @Test(arguments: ["SQL_ASCII", "LATIN1"])
    func `refuses a database whose texts are not UTF-8, and so do workers and the doctor`(
        encoding: String
    ) async throws {
        try await withEmptyDatabase("encoding '\(encoding)'") { _, database in
            let connection = try await database.connect()
            let problem = "database \(database.name) has the encoding \(encoding), and pushq needs UTF8: create another"
            await #expect { try await Migrator(connection).run() } throws: { "\($0)".hasPrefix(problem) }
            await #expect { try await Migrator(connection).dryRun() } throws: { "\($0)".hasPrefix(problem) }
            await #expect { try await connection.checkSchema() } throws: { "\($0)".hasPrefix(problem) }
            let checks = [HealthCheck.encoding, .schema]
            var findings: [HealthFinding] = []
            for check in checks { findings += try await check.findings(in: connection) }
            #expect(findings.map(\.severity) == [.error])
            #expect(findings.first?.evidence.hasPrefix("has the encoding \(encoding)") == true)
            #expect(try await connection.hasMigrationTable() == false)
        }
    }

    @Test(arguments: [
        ("create table pushq.migration (id int)", "its table migration is not pushq's"),
        ("create view pushq.migration as select 1 as version", "its table migration is not pushq's"),
        ("create table pushq.orders (id int generated always as identity)", "it has the table orders"),
        ("create function pushq.f() returns int language sql as 'select 1'", "it has the function f"),
        ("create type pushq.mood as enum ('fine')", "it has the type mood"),
    ])
    func `refuses somebody else's schema of that name, and leaves it as it was`(
        object: String, finding: String
    ) async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript("create schema pushq; \(object)")
            let problem =
                "database \(database.name) has another program's schema pushq: \(finding). Nothing was done; use "
                + "another database, or rename that schema"
            await #expect { try await Migrator(connection).run() } throws: { "\($0)" == problem }
            await #expect { try await Migrator(connection).dryRun() } throws: { "\($0)" == problem }
            #expect(try await HealthCheck.schema.findings(in: connection).map(\.evidence) == [problem])
            let owner = Statement(
                "owner", "select nspowner = current_user::regrole as is_mine from pg_namespace where nspname = 'pushq'")
            #expect(try await connection.execute(owner).one().bool("is_mine"))
        }
    }

    @Test func `begins in a schema that an administrator has made, also with an extension in it`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            // Some builds of PostgreSQL have no extension but this one.
            try await connection.runScript(
                """
                create schema pushq;
                create function pushq.f() returns int language sql return 1;
                alter extension plpgsql add function pushq.f()
                """)
            #expect(try await Migrator(connection).dryRun().applied == Migration.all.map(\.name))
        }
    }

    @Test func `changes nothing for the role that migrates, which producers may share`() async throws {
        try await withEmptyDatabase { _, database in
            _ = try await Migrator(try await database.connect()).run()
            let settings = Statement(
                "role_settings",
                "select count(*) from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = "
                    + "current_database())")
            #expect(try await database.connect().execute(settings).one().int8("count") == 0)
        }
    }

    @Test(arguments: [["--schema-only"], ["--inserts"], ["--schema-only", "--no-owner", "--no-acl"]])
    func `goes on from a dump that was restored into an empty database, with or without its data`(
        options: [String]
    ) async throws {
        let dump = try await withDatabase { _, database in
            try await TestServer.shared().client("pg_dump", options + [database.name]).run()
        }
        try await withEmptyDatabase { _, database in
            // Removes the lines that only psql understands.
            let script = dump.split(separator: "\n").filter { !$0.hasPrefix("\\") }.joined(separator: "\n")
            try await database.connect().runScript(script)
            let connection = try await database.connect()
            let next = [Migration(name: "9999_next", sql: "create table pushq.next (n int)")]
            // One function was removed, and another one is new.
            let definitions =
                Definition.all.filter { $0.name != "functions/token" } + [
                    Definition(
                        name: "functions/next",
                        sql: "create or replace function pushq.next() returns int language sql as 'select 1'")
                ]
            let expected = Migrator.Report(
                applied: ["9999_next"], definitions: ["functions/next"],
                dropped: ["plain_token", "read_token", "token", "token_start"].map {
                    "function pushq.\($0)(pg_catalog.text)"
                } + ["function pushq.tokens(pg_catalog.text[],pg_catalog.text)"])
            let migrator = Migrator(connection, Migration.all + next, definitions)
            #expect(try await migrator.dryRun() == expected)
            #expect(try await migrator.run() == expected)
            #expect(try await migrator.run().isUpToDate)
            let count = Statement("count", "select count(*) from pushq.migration")
            #expect(try await connection.execute(count).one().int8("count") == Int64(Migration.all.count + 1))
            // Owners and rights are the same as after a first migration.
            let strays = Statement(
                "strays",
                #"""
                select (select count(*) from pg_proc p
                        where p.pronamespace = 'pushq'::regnamespace
                          and (p.proowner <> 'pushq_owner'::regrole or has_function_privilege('public', p.oid, 'execute')
                            or p.prosecdef and (p.prorettype = 'trigger'::regtype)
                                = (has_function_privilege('pushq_producer', p.oid, 'execute')
                                   or has_function_privilege('pushq_worker', p.oid, 'execute'))))
                     + (select count(*) from pg_class c
                        where c.relnamespace = 'pushq'::regnamespace and c.relowner <> 'pushq_owner'::regrole) as count
                """#)
            #expect(try await connection.execute(strays).one().int8("count") == 0)
        }
    }

    @Test func `by a login of workers does not advise to make it an owner`() async throws {
        try await withEmptyDatabase { _, database in
            let (admin, login) = (try await database.connect(), "worker_\(database.name)")
            _ = try await Migrator(admin).run()
            try await admin.runScript("create role \(login) login in role pushq_worker")
            let report = try await Migrator(try await database.connect(login: login)).run()
            #expect(report.isUpToDate)
            #expect(
                report.advice == [
                    "\(login) has the rights of pushq_worker only. Run migrate as a login with those of pushq_owner"
                ])
            try await admin.runScript("drop role \(login)")
        }
    }

    @Test func `by a login without rights on roles says what to run, works without it, and makes up for it later`()
        async throws
    {
        try await withEmptyDatabase { _, database in
            let (admin, login) = (try await database.connect(), "migrator_\(database.name)")
            // Roles belong to the server, which other tests use: the roles exist, and this login is not a member of
            // them.
            _ = try await Migrator(admin, [], []).run()
            try await admin.runScript("drop schema pushq; create role \(login) login")
            let statements =
                "grant pushq_owner to \(login); grant pushq_producer, pushq_reader, pushq_worker to \(login) with admin option"
            let migrator = Migrator(try await database.connect(login: login))
            let unprepared = await #expect(throws: MigrationError.self) { try await migrator.run() }
            let grant = "grant create on database \(database.name) to \(login)"
            #expect(
                unprepared?.description
                    == "\(login) may not make the schema in this database. Let an administrator of the server run: "
                    + "\(grant); \(statements); then migrate again")
            try await admin.runScript(grant)
            let report = try await migrator.run()
            #expect(
                report.advice == [
                    "\(login) may not create all roles of pushq, or not grant them to others. "
                        + "Let an administrator of the server run: \(statements); then migrate again"
                ])
            #expect(report.applied == Migration.all.map(\.name))

            func owners() async throws -> String? {
                let owners = Statement(
                    "owners",
                    #"""
                    select string_agg(distinct owner::regrole::text, ',') as owners
                    from (
                      select relowner as owner from pg_class where relnamespace = 'pushq'::regnamespace
                      union all
                      select proowner from pg_proc where pronamespace = 'pushq'::regnamespace
                      union all
                      select nspowner from pg_namespace where nspname = 'pushq') o
                    """#)
                return try await admin.execute(owners).one().optionalText("owners")
            }
            #expect(try await owners() == login)
            // A producer does not need the owner role.
            _ = try await admin.createTenant("acme")
            try await admin.runScript("create role producer_\(login) login")
            try await admin.grantTenant("acme", to: "producer_\(login)", isReadOnly: false)
            let producer = try await database.connect(login: "producer_\(login)")
            let call = Statement("call", "select pushq.new_list('acme/com.acme/production')")
            await #expect(throws: PostgresError.self) { try await producer.execute(call) }
            try await admin.runScript(
                """
                insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme' from pushq.tenant;
                insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app
                """)
            #expect(try await producer.execute(call).first != nil)

            // If the owner may not grant a role, the finding contains the statement that allows it.
            try await admin.runScript("create role reader_\(login); grant pushq_owner to \(login)")
            let owner = try await database.connect(login: login)
            #expect(
                try await HealthCheck.roles.findings(in: owner).map(\.remedy.text) == [
                    "grant pushq_producer, pushq_reader, pushq_worker to \(login) with admin option;"
                ])
            let refused = await #expect(throws: TenantGrantError.self) {
                try await owner.grantTenant("acme", to: "reader_\(login)", isReadOnly: true)
            }
            #expect(refused == .mayNotGrant(GrantRefusal(role: "pushq_reader", login: login)))

            // Before version 16, the right to create roles is enough.
            try await admin.runScript("alter role \(login) createrole")
            let version = try await admin.execute(
                Statement("version", "select current_setting('server_version_num')::int8 as version")
            ).one().int8("version")
            #expect(try await HealthCheck.roles.findings(in: owner).isEmpty == (version < 160_000))
            try await admin.runScript("alter role \(login) nocreaterole; \(statements)")
            let later = try await Migrator(owner).run()
            #expect(later == Migrator.Report())
            #expect(try await owners() == "pushq_owner")
            #expect(try await producer.execute(call).first != nil)
            #expect(try await HealthCheck.roles.findings(in: owner).isEmpty)
            try await owner.grantTenant("acme", to: "reader_\(login)", isReadOnly: true)
        }
    }

    /// It may set the role of the owner, but would have none of its rights when it reads what is missing.
    @Test(arguments: ["", "with admin option"])
    func `by a login that does not inherit the rights of its roles is refused before anything is made`(
        option: String
    ) async throws {
        try await withEmptyDatabase { _, database in
            let (admin, login) = (try await database.connect(), "aloof_\(database.name)")
            // Roles belong to the server: this creates them.
            _ = try await Migrator(admin, [], []).run()
            try await admin.runScript(
                """
                drop schema pushq;
                create role \(login) login noinherit;
                grant pushq_owner to \(login) \(option);
                grant create on database \(database.name) to \(login)
                """)
            let error = await #expect(throws: MigrationError.self) {
                try await Migrator(try await database.connect(login: login)).run()
            }
            let version = try await admin.execute(
                Statement("version", "select current_setting('server_version_num')::int as number")
            ).one().int4("number")
            let remedy =
                "alter role \(login) inherit"
                + (version >= 160_000 ? "; grant pushq_owner to \(login) with inherit true" : "")
            #expect(
                error?.description
                    == "rights/roles failed, nothing of it was done: \(login) would have none of the rights of "
                    + "pushq_owner, since it does not inherit those of its roles; run in PostgreSQL: \(remedy); then "
                    + "migrate again")
            #expect(try await admin.execute(schemaExists).one().bool("exists") == false)
            try await admin.runScript(remedy)
            #expect(try await Migrator(try await database.connect(login: login), Self.two).run().applied.count == 2)
        }
    }

    @Test func `leaves duties to workers where a dump had none`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript("truncate pushq.duty")
            // A worker creates the rows that it needs.
            for taken in [nil, "upkeep"] {
                #expect(
                    try await connection.takeDuty([("upkeep", .zero, .zero)], workerID: 1, lease: .seconds(1)) == taken)
            }
        }
    }

    @Test func `a dry run changes nothing`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await Migrator(connection, Self.two).dryRun()
            #expect(try await connection.execute(schemaExists).one().bool("exists") == false)
        }
    }

    @Test func `started by several at once, each is applied once`() async throws {
        try await withEmptyDatabase { actor, database in
            var runs: [Task<Migrator.Report, any Error>] = []
            for _ in 0..<4 {
                let migrator = Migrator(try await database.connect(), Self.two)
                runs.append(
                    Task {
                        _ = actor
                        return try await migrator.run()
                    })
            }
            var applied: [String] = []
            for run in runs { applied += try await run.value.applied }
            #expect(applied.sorted() == ["0001_first", "0002_second"])
        }
    }

    @Test func `names the session that has held the lock all the time, and may be started again`() async throws {
        try await withEmptyDatabase { _, database in
            let (connection, holder) = (try await database.connect(), try await database.connect())
            _ = try await Migrator(connection, Self.two).run()
            try await holder.runScript("begin; lock table pushq.migration in share row exclusive mode")
            let process = try await holder.execute(Statement("process", "select pg_backend_pid() as id")).one().int4(
                "id")
            let error = await #expect(throws: MigrationError.self) {
                try await Migrator(connection, Self.two).run(within: .seconds(2))
            }
            let text = try #require(error?.description)
            #expect(
                text.hasPrefix("another migrate seems to be running: process \(process) of login "), "\(text)")
            try await holder.runScript("rollback")
            #expect(try await Migrator(connection, Self.two).run().isUpToDate)
        }
    }

    @Test func `goes on where another was killed`() async throws {
        try await withEmptyDatabase { _, database in
            _ = try await Migrator(try await database.connect(), [Self.two[0]]).run()
            #expect(try await Migrator(try await database.connect(), Self.two).run().applied == ["0002_second"])
        }
    }

    @Test func `leaves a schema alone that is newer than the program`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await Migrator(connection, Self.two).run()
            let old = Migrator(connection, [Self.two[0]])
            await #expect(throws: MigrationError.newerSchema("0002_second")) { try await old.run() }
            await #expect(throws: MigrationError.newerSchema("0002_second")) { try await old.dryRun() }
        }
    }

    @Test func `leaves a schema alone whose migration was changed afterwards`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await Migrator(connection, Self.two).run()
            let changed = [Self.two[0], Migration(name: "0002_second", sql: "select 1")]
            await #expect(throws: MigrationError.changed(applied: "0002_second", here: "0002_second")) {
                try await Migrator(connection, changed).run()
            }
        }
    }

    @Test func `one that fails leaves nothing of itself, and its line is told`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let broken = Migration(name: "0003_broken", sql: "create table pushq.third (n int);\n\nselect nonsense")
            let error = await #expect(throws: MigrationError.self) {
                try await Migrator(connection, Self.two + [broken]).run()
            }
            let text = "migration 0003_broken failed at line 3, nothing of it was done: "
            #expect(error?.description == text + #"a script: column "nonsense" does not exist (42703)"#)
            #expect(try await Migrator(connection, Self.two).run().applied == [])
            let third = Statement("third", "select to_regclass('pushq.third') is null as is_missing")
            #expect(try await connection.execute(third).one().bool("is_missing"))
        }
    }

    @Test func `tries again when a lock is not to be had, and does not make others wait behind it`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            _ = try await Migrator(connection, [Self.two[0]]).run()
            let reader = try await database.connect()
            try await reader.runScript("begin; select * from pushq.first")
            let run = Task {
                _ = actor
                return try await Migrator(connection, Self.two).run()
            }
            let gaveUp = Statement(
                "gave_up", "select xact_rollback from pg_stat_database where datname = current_database()")
            let other = try await database.connect()
            try await eventually("an attempt given up") {
                try await other.execute(gaveUp).one().int8("xact_rollback") > 0
            }
            try await reader.runScript("commit")
            #expect(try await run.value.applied == ["0002_second"])
        }
    }

    private let schemaExists = Statement("schema_exists", "select to_regnamespace('pushq') is not null as exists")
}
