import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10)))
struct `Applying functions and views anew` {
    private static let table = [Migration(name: "0001_first", sql: "create table pushq.first (n int)")]

    private func function(_ body: String, returns type: String = "int", _ name: String = "answer") -> Definition {
        Definition(
            name: "functions/\(name)",
            sql: "create or replace function pushq.\(name)() returns \(type) language sql as $$ \(body) $$")
    }

    private func view(_ query: String, _ name: String = "shown") -> Definition {
        Definition(name: "views/\(name)", sql: "create or replace view pushq.\(name) as \(query)")
    }

    /// Runs the migrator with one list of definitions after the other.
    private func migrate(
        _ connection: PostgresConnection, _ definitions: Definition...
    ) async throws -> Migrator.Report {
        try await Migrator(connection, Self.table, definitions).run()
    }

    private func text(_ connection: PostgresConnection, _ query: String) async throws -> String? {
        try await connection.execute(Statement("test", "select (\(query))::text as text")).one().optionalText("text")
    }

    @Test func `a changed text replaces the function in place, with the rights on it`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 1"), view("select 1 as n"))
            try await connection.runScript("revoke execute on function pushq.answer() from public")
            let identity = "select array[oid::text, proacl::text] from pg_proc where proname = 'answer'"
            let before = try await text(connection, identity)
            let report = try await migrate(connection, function("select 2"), view("select 1 as n"))
            #expect(report == Migrator.Report(definitions: ["functions/answer"]))
            #expect(try await text(connection, "select pushq.answer()") == "2")
            #expect(try await text(connection, identity) == before)
        }
    }

    @Test func `a function with another result is made anew, and so are views and triggers that use it`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let shown = view("select pushq.answer() as n")
            let trigger = Definition(
                name: "functions/watch",
                sql: """
                    create or replace function pushq.watch() returns trigger language plpgsql as 'begin return new; end';
                    create or replace trigger watched before insert on pushq.first
                    for each row when (pushq.answer() is not null) execute function pushq.watch()
                    """)
            _ = try await migrate(connection, function("select 1"), trigger, shown)
            let report = try await migrate(connection, function("select 'two'::text", returns: "text"), trigger, shown)
            #expect(report.definitions == ["functions/answer", "functions/watch", "views/shown"])
            #expect(report.dropped == [])
            #expect(try await text(connection, "select n from pushq.shown") == "two")
            #expect(try await text(connection, "select count(*) from pg_trigger where tgname = 'watched'") == "1")
            #expect(
                try await migrate(connection, function("select 'two'::text", returns: "text"), trigger, shown)
                    .isUpToDate)
        }
    }

    @Test func `a function that has to be made anew waits for a session that uses a view of it`() async throws {
        try await withEmptyDatabase { actor, database in
            let (connection, reader) = (try await database.connect(), try await database.connect())
            let shown = view("select pushq.answer() as n")
            _ = try await migrate(connection, function("select 1"), shown)
            try await reader.runScript("begin; select * from pushq.shown")
            let migrating = Task {
                _ = actor
                return try await migrate(connection, function("select 'two'::text", returns: "text"), shown)
            }
            let waiting = "select count(*) from pg_locks where not granted and relation = 'pushq.shown'::regclass"
            try await eventually("the migrator waits") { try await text(reader, waiting) == "1" }
            try await eventually("the lock was not granted in time") { try await text(reader, waiting) == "0" }
            try await reader.runScript("commit")
            #expect(try await migrating.value.definitions == ["functions/answer", "views/shown"])
            #expect(try await text(connection, "select n from pushq.shown") == "two")
        }
    }

    @Test func `what no file has any more is dropped, though one thing uses the other`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(
                connection, function("select 1"), function("select 1", "kept"), view("select pushq.answer() as n"),
                view("select n from pushq.shown", "shown_twice"))
            let definitions = [function("select 1", "kept")]
            let dropped = ["function pushq.answer()", "view pushq.shown", "view pushq.shown_twice"]
            #expect(try await Migrator(connection, Self.table, definitions).dryRun().dropped == dropped)
            #expect(try await Migrator(connection, Self.table, definitions).run().dropped == dropped)
            let left = "select string_agg(proname, ' ') from pg_proc where pronamespace = 'pushq'::regnamespace"
            #expect(try await text(connection, left) == "kept")
        }
    }

    @Test func `a signature that a file has no longer is dropped, and the others of its name stay`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let old = "create or replace function pushq.f(a int) returns int language sql as 'select 1'"
            let new =
                "create or replace function pushq.f(a int, b int default 0) returns int language sql as 'select 2'"
            _ = try await migrate(connection, Definition(name: "functions/f", sql: old))
            let both = try await migrate(connection, Definition(name: "functions/f", sql: "\(old);\n\(new)"))
            #expect(both.dropped == [])
            let report = try await migrate(connection, Definition(name: "functions/f", sql: new))
            #expect(report.dropped == ["function pushq.f(integer)"])
            #expect(try await text(connection, "select pushq.f(1)") == "2")
        }
    }

    @Test func `what somebody else made in the schema, or built on it, is never dropped`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 1"))
            try await connection.runScript(
                """
                create function pushq.theirs() returns int language sql as 'select 3';
                create view public.report as select pushq.answer() as n
                """)
            let error = await #expect(throws: MigrationError.self) {
                try await migrate(connection, function("select 1", "other"))
            }
            let message = try #require(error?.description)
            #expect(message.contains("answer() because other objects depend on it; view "))
            #expect(message.contains("report depends on function pushq.answer() (2BP01); if"))
            #expect(message.hasSuffix("if something of yours uses it, drop that first"))
            // The migrator changed nothing.
            #expect(try await text(connection, "select to_regproc('pushq.other')") == nil)
            try await connection.runScript("drop view public.report")
            #expect(try await migrate(connection, function("select 1", "other")).dropped == ["function pushq.answer()"])
            #expect(try await text(connection, "select pushq.theirs()") == "3")
        }
    }

    /// PostgreSQL's message about several objects names none.
    @Test func `what somebody built on one of several that are dropped is named, on one line`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 1"), function("select 2", "second"))
            try await connection.runScript(
                """
                create view public.report as select pushq.answer() as n;
                create view public.summary as select pushq.answer() as n
                """)
            let error = await #expect(throws: MigrationError.self) {
                try await migrate(connection, function("select 1", "other"))
            }
            let message = try #require(error?.description)
            for view in ["report", "summary"] {
                #expect(message.contains("\(view) depends on function pushq.answer()"), "\(message)")
            }
            #expect(message.hasSuffix("(2BP01); if something of yours uses it, drop that first"), "\(message)")
            #expect(!message.contains("\n"))
        }
    }

    @Test func `a file that fails leaves all functions as they were, and its line is told`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 1"))
            let broken = Definition(name: "functions/broken", sql: "-- Not SQL:\nnonsense")
            let error = await #expect(throws: MigrationError.self) {
                try await migrate(connection, function("select 2"), broken)
            }
            #expect(error?.description.hasPrefix("functions/broken failed at line 2, nothing of it was done: ") == true)
            #expect(try await text(connection, "select pushq.answer()") == "1")
        }
    }

    @Test func `one that is applied while statements use it disturbs none of them`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 0"))
            let caller = try await database.connect()
            let calls = Task {
                _ = actor
                let call = Statement("call", "select pushq.answer()")
                var seen: Set<Int32> = []
                while !seen.contains(20) { seen.insert(try await caller.execute(call).one().int4("answer")) }
                return seen.count
            }
            for version in 1...20 { _ = try await migrate(connection, function("select \(version)")) }
            #expect(try await calls.value > 1)
        }
    }

    @Test func `a schema with a migration that the program does not know keeps its functions`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await migrate(connection, function("select 2"))
            await #expect(throws: MigrationError.newerSchema("0001_first")) {
                try await Migrator(connection, [], [function("select 1")]).run()
            }
            #expect(try await text(connection, "select pushq.answer()") == "2")
        }
    }

    /// PostgreSQL refuses to catch an error in a parallel operation. A session may force those (`force_parallel_mode`).
    @Test func `call no function safe in parallel that catches errors`() async throws {
        try await withDatabase { _, database in
            let wrong = try await database.connect().execute(
                Statement(
                    "wrong",
                    #"""
                    with recursive catching as (
                      select p.oid, p.proname::text as name from pg_proc p
                      where p.pronamespace = 'pushq'::regnamespace and p.prosrc ~ '\mexception\s+when'
                      union
                      select p.oid, p.proname::text from catching c
                      join pg_proc p on p.pronamespace = 'pushq'::regnamespace and p.prosrc ~ ('pushq\.' || c.name || '\M'))
                    select c.name from catching c join pg_proc p on p.oid = c.oid where p.proparallel = 's'
                    """#)
            ).map { $0.text("name") }
            #expect(wrong == [])
        }
    }

    /// A forbidden step costs so much that PostgreSQL compiles the statement: 0.3 s for a registration that took 2 ms.
    @Test func `let none be compiled for which they forbid nested loops`() async throws {
        try await withDatabase { _, database in
            let wrong = try await database.connect().execute(
                Statement(
                    "wrong",
                    """
                    select p.proname::text as name from pg_proc p
                    where p.pronamespace = 'pushq'::regnamespace and 'enable_nestloop=off' = any (p.proconfig)
                      and not 'jit=off' = any (p.proconfig)
                    """)
            ).map { $0.text("name") }
            #expect(wrong == [])
        }
    }
}
