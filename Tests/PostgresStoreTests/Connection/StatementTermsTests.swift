import TestSupport
import Testing

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `The terms of a statement` {
    private static let settings = Statement(
        "settings",
        """
        select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,
               current_setting('pushq.program', true) as program
        """)
    private static let sleep = Statement("sleep", "select pg_sleep(30)::text as slept")

    @Test func `hold for it alone, by its own limit, and leave a login's shorter limits`() async throws {
        try await withEmptyDatabase { _, database in
            let store = try await database.connect()
            store.terms = StatementTerms(program: "dashboard: Jürgen Юлия")
            for (limit, lock, statement) in [(Duration.seconds(10), "8s", "9s"), (.seconds(1800), "24min", "27min")] {
                let row = try await store.execute(Self.settings, within: limit).one()
                #expect((row.text("lock"), row.text("statement")) == (lock, statement))
                #expect(row.text("program") == "dashboard: Jürgen Юлия")
            }
            store.terms = nil
            let row = try await store.execute(Self.settings).one()
            #expect((row.text("lock"), row.text("statement")) == ("0", "0"))
            #expect(row.optionalText("program") ?? "" == "")

            try await store.runScript("alter database \(database.name) set statement_timeout = '3s'")
            let limited = try await database.connect()
            limited.terms = StatementTerms()
            #expect(try await limited.execute(Self.settings).one().text("statement") == "3s")
            #expect(try await limited.execute(Self.settings, within: .seconds(2)).one().text("statement") == "1800ms")
        }
    }

    /// The JIT compiler may work for seconds in which the server does not look at its time limits.
    @Test func `and those of a transaction bring warnings, and no JIT, whatever the login is set to`() async throws {
        try await withEmptyDatabase { _, database in
            try await database.connect().runScript(
                """
                alter database \(database.name) set jit = on;
                alter database \(database.name) set client_min_messages = error
                """)
            let store = try await database.connect()
            let shown = Statement(
                "shown", "select current_setting('jit') || ' ' || current_setting('client_min_messages') as shown")
            func settings() async throws -> String { try await store.execute(shown).one().text("shown") }
            #expect(try await settings() == "on error")
            #expect(try await store.transaction { try await settings() } == "off warning")
            #expect(try await settings() == "on error", "nothing is left for the next client of a pooler")
            store.terms = StatementTerms()
            #expect(try await settings() == "off warning")
            #expect(try await store.transaction { try await settings() } == "off warning")
            store.terms = nil
            #expect(try await settings() == "on error")
        }
    }

    @Test func `have the server answer before the caller gives up, so that the connection lasts`() async throws {
        try await withEmptyDatabase { _, database in
            let (holder, store) = (try await database.connect(), try await database.connect())
            try await holder.runScript("create table public.t (i int); insert into public.t values (1)")
            store.terms = StatementTerms()
            let slept = await #expect(throws: PostgresError.self) {
                _ = try await store.execute(Self.sleep, within: .seconds(2))
            }
            #expect(slept?.description.hasSuffix("(57014); it was not carried out") == true, "\(slept as Any)")
            try await holder.transaction {
                _ = try await holder.execute(Statement("hold", "select i from public.t for update"))
                let held = await #expect(throws: PostgresError.self) {
                    _ = try await store.execute(Statement("change", "update public.t set i = 2"), within: .seconds(2))
                }
                #expect(held?.isContended == true && held?.description.contains("it was not carried out") == true)
            }
            #expect(try await store.execute(Statement("now", "select i from public.t")).one().int4("i") == 1)
        }
    }

    /// A later statement of the transaction, such as a COPY of a large file, may take as long as its own limit.
    @Test func `say in a transaction of several statements only how long to wait for a lock`() async throws {
        try await withEmptyDatabase { _, database in
            let store = try await database.connect()
            store.patience = .seconds(10)
            store.terms = StatementTerms(program: "p")
            try await store.transaction {
                let row = try await store.execute(Self.settings).one()
                #expect((row.text("lock"), row.text("statement"), row.text("program")) == ("8s", "0", "p"))
                let longer = try await store.execute(Self.settings, within: .seconds(1800)).one()
                #expect((longer.text("lock"), longer.text("statement")) == ("24min", "0"))
            }
            store.terms = nil
            #expect(try await store.execute(Self.settings).one().text("lock") == "0")
            // Without a commit the transaction has changed nothing, whatever the server does now.
            await #expect(throws: PostgresError.timedOut("sleep", after: .seconds(1), .notDone)) {
                try await store.transaction { _ = try await store.execute(Self.sleep, within: .seconds(1)) }
            }
        }
    }

    @Test(arguments: ["repeatable read", "serializable"])
    func `have it read what others have committed, whatever the database says, and so has a transaction`(
        _ level: String
    ) async throws {
        try await withEmptyDatabase { _, database in
            try await database.connect().runScript(
                "alter database \(database.name) set default_transaction_isolation = '\(level)'")
            let shown = Statement("shown", "select current_setting('transaction_isolation') as level")
            let store = try await database.connect()
            #expect(try await store.execute(shown).one().text("level") == level)
            store.onWarning = { Issue.record("\($0)") }
            store.terms = StatementTerms()
            for _ in 0..<2 { #expect(try await store.execute(shown).one().text("level") == "read committed") }
            for terms in [StatementTerms(), nil] {
                store.terms = terms
                let level = try await store.transaction {
                    _ = try await store.execute(shown)
                    return try await store.execute(shown).one().text("level")
                }
                #expect(level == "read committed")
            }
            #expect(try await store.execute(shown).one().text("level") == level, "nothing is left of the terms")
        }
    }

    /// All statements are sent in one turn of the loop, prepared and unprepared, and one of them fails.
    @Test func `do not disturb the statements that are sent with it`() async throws {
        try await withEmptyDatabase { actor, database in
            let store = try await database.connect()
            store.terms = StatementTerms()
            let tasks = (0..<100).map { (number: Int64) in
                Task {
                    _ = actor
                    return try await store.execute(
                        Statement("part", "select 100 / $number::int8 as part"), ["number": .int8(number % 10)]
                    ).one().int8("part")
                }
            }
            for (number, task) in zip(Int64(0)..., tasks) {
                if number % 10 == 0 {
                    await #expect(throws: PostgresError.self) { try await task.value }
                } else {
                    #expect(try await task.value == 100 / (number % 10))
                }
            }
        }
    }
}
