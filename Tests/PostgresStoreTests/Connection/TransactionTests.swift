import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `A transaction` {
    private struct BodyError: Error, Equatable {}

    private static let insert = Statement("insert", "insert into public.row values ($1)")
    private static let count = Statement("count", "select count(*) from public.row")

    private func withTable(
        _ body: @Sendable @escaping (isolated LoopActor, TestDatabase, PostgresConnection) async throws -> Void
    ) async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            try await connection.runScript("create table public.row (n int constraint row_positive check (n > 0))")
            try await body(actor, database, connection)
        }
    }

    @Test func `is committed when its body returns`() async throws {
        try await withTable { _, database, connection in
            let answer = try await connection.transaction {
                _ = try await connection.execute(Self.insert, [.int4(1)])
                _ = try await connection.execute(Self.insert, [.int4(2)])
                let other = try await database.connect()
                #expect(try await other.execute(Self.count).one().int8("count") == 0)
                return 42
            }
            #expect(answer == 42)
            #expect(try await connection.execute(Self.count).one().int8("count") == 2)
        }
    }

    @Test func `is rolled back when its body throws`() async throws {
        try await withTable { _, _, connection in
            await #expect(throws: BodyError()) {
                try await connection.transaction {
                    _ = try await connection.execute(Self.insert, [.int4(1)])
                    throw BodyError()
                }
            }
            let count = try await connection.execute(Self.count).one().int8("count")
            #expect(count == 0)
        }
    }

    @Test func `is not taken for committed when one of its statements had failed`() async throws {
        try await withTable { _, _, connection in
            await #expect {
                try await connection.transaction {
                    _ = try? await connection.execute(Self.insert, [.int4(-1)])
                }
            } throws: { error in
                if case .server(let error) = error as? PostgresError { error.state == "25P02" } else { false }
            }
            let count = try await connection.execute(Self.count).one().int8("count")
            #expect(count == 0)
        }
    }

    @Test func `gives its limit to its statements, unless they have one of their own`() async throws {
        let lockTimeout = Statement("lock_timeout", "select current_setting('lock_timeout') as setting")
        let sleep = Statement("sleep", "select pg_sleep(60)::text")
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            connection.patience = .seconds(10)
            // The lock timeout is four fifths of a statement's limit.
            connection.terms = StatementTerms()
            try await connection.transaction(within: .seconds(3600)) {
                #expect(try await connection.execute(lockTimeout).one().text("setting") == "48min")
                let own = try await connection.execute(lockTimeout, within: .seconds(5)).one()
                #expect(own.text("setting") == "4s")
            }
            #expect(try await connection.execute(lockTimeout).one().text("setting") == "8s")
            connection.terms = nil
            await #expect(throws: PostgresError.timedOut("sleep", after: .seconds(1), .notDone)) {
                try await connection.transaction(within: .seconds(1)) { _ = try await connection.execute(sleep) }
            }
        }
    }

    @Test func `whose commit is not answered has an unknown outcome`() async throws {
        let proxy = try await DatabaseProxy { message in
            message.isFromClient && message.bytes.starts(with: Array("Q\0\0\0\u{b}commit".utf8)) ? .cut : .pass
        }
        defer { proxy.close() }
        try await withTable { _, database, _ in
            let connection = try await PostgresConnection.connect(
                to: try proxy.address(of: database), as: "test", on: database.loop)
            await #expect {
                try await connection.transaction { _ = try await connection.execute(Self.insert, [.int4(1)]) }
            } throws: { error in
                (error as? PostgresError)?.isOutcomeUnknown == true
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10)))
struct `Errors of the server` {
    private func error(of sql: String, after script: String = "select 1") async throws -> PostgresError? {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(script)
            do throws(PostgresError) {
                _ = try await connection.execute(Statement("tried", sql))
                return nil
            } catch {
                return error
            }
        }
    }

    @Test func `name the constraint`() async throws {
        let table = "create table t (n int constraint t_positive check (n > 0) constraint t_once unique)"
        guard case .violated("t_positive", _) = try await error(of: "insert into t values (-7)", after: table) else {
            Issue.record("not a violation")
            return
        }
        let again = "insert into t values (1), (1)"
        guard case .duplicate("t_once", _) = try await error(of: again, after: table) else {
            Issue.record("not a duplicate")
            return
        }
    }

    @Test(arguments: [
        "select nowhere()", "select * from nowhere", "select * from nowhere.at_all", "select nowhere from pg_class",
    ])
    func `of things that are missing say what to do`(sql: String) async throws {
        let error = try #require(await error(of: sql))
        guard case .notMigrated = error else { throw error }
        #expect(
            error.description.hasSuffix(
                "; unless a restore is running, bring the schema up to date with pushq-admin migrate of the newest "
                    + "version in use"))
    }

    @Test func `of our own functions are said as they stand`() async throws {
        let raise =
            "create function refuse() returns int language plpgsql as $$ begin raise 'no queue a/b/c' using hint = 'create it'; end $$"
        #expect(
            try await error(of: "select refuse()", after: raise)
                == .raised(message: "no queue a/b/c", hint: "create it"))
    }

    @Test func `never hold the data`() async throws {
        let error = try #require(await error(of: "select 'my secret'::int"))
        #expect(error.description == #"tried: invalid input syntax for type integer: "…" (22P02)"#)
    }

    @Test func `of two that were in each other's way ask to try again`() async throws {
        try await withEmptyDatabase { _, database in
            let (one, two) = (try await database.connect(), try await database.connect())
            try await one.runScript("create table t (n int); insert into t values (1)")
            try await one.runScript("begin; update t set n = 2")
            try await two.runScript("set lock_timeout = '10ms'")
            await #expect { try await two.execute(Statement("late", "update t set n = 3")) } throws: { error in
                if case .contended = error as? PostgresError {
                    (error as? PostgresError)?.isTransient == true
                } else {
                    false
                }
            }
        }
    }

    @Test func `of a role without the right name it`() async throws {
        let setUp =
            "do $$ begin create role powerless; exception when duplicate_object then null; end $$; create table t (); set role powerless"
        guard case .notAllowed = try await error(of: "select * from t", after: setUp) else {
            Issue.record("it was allowed")
            return
        }
    }
}
