import Glibc
import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `A pipelined connection` {
    private static let add = Statement("add", "select $1::int4 + $2::int4 as sum")

    @Test func `answers in the order of the calls, whatever fails between`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let divide = Statement("divide", "select $1::int4 / $2::int4 as quotient")
            let calls = (0..<300).map { (number: Int32) in
                Task {
                    _ = actor
                    return try await connection.execute(divide, [.int4(number), .int4(number % 3)]).first?.int4(
                        "quotient")
                }
            }
            for (number, call) in zip(Int32(0)..., calls) {
                let result = await call.result
                if number % 3 == 0 {
                    #expect(throws: PostgresError.self) { try result.get() }
                } else {
                    #expect(try result.get() == number / (number % 3))
                }
            }
            #expect(connection.isOpen)
        }
    }

    /// The proxy holds back the server's answers until it has seen the messages of all calls.
    @Test func `sends what one turn asks for in one round trip`() async throws {
        let calls = 20
        let gate = Gate(syncsNeeded: calls)
        let proxy = try await DatabaseProxy { gate.pass($0) }
        defer { proxy.close() }
        try await withEmptyDatabase { actor, database in
            let connection = try await PostgresConnection.connect(
                to: try proxy.address(of: database), as: "test", on: database.loop)
            defer { connection.close() }
            gate.shut()
            let sums = (1...Int32(calls)).map { number in
                Task {
                    _ = actor
                    return try await connection.execute(Self.add, [.int4(number), .int4(1)]).first?.int4("sum")
                }
            }
            for (number, sum) in zip(Int32(1)..., sums) { #expect(try await sum.value == number + 1) }
        }
        #expect(gate.parses == 1)
    }

    @Test func `a failed statement aborts no other, and is told with its kind`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            try await connection.runScript("create table kept (n int constraint kept_once unique)")
            let insert = Statement("insert", "insert into kept values ($1)")
            let calls = [1, 1, 2].map { (number: Int32) in
                Task {
                    _ = actor
                    return try await connection.execute(insert, [.int4(number)])
                }
            }
            #expect(try await calls[0].value.affectedRows == 1)
            await #expect { try await calls[1].value } throws: { error in
                if case .duplicate("kept_once", _) = error as? PostgresError { true } else { false }
            }
            #expect(try await calls[2].value.affectedRows == 1)
            #expect(
                try await connection.execute(Statement("count", "select count(*) from kept")).one().int8("count") == 2)
        }
    }

    @Test func `more calls than may be under way are all answered`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let calls = (0..<2000).map { (number: Int32) in
                Task {
                    _ = actor
                    return try await connection.execute(Self.add, [.int4(number), .int4(0)]).first?.int4("sum")
                }
            }
            for (number, call) in zip(Int32(0)..., calls) { #expect(try await call.value == number) }
        }
    }

    @Test func `much goes both ways at once`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let echo = Statement("echo", "select $1::bytea as bytes")
            let calls = (0..<40).map { (number: UInt8) in
                Task {
                    _ = actor
                    let bytes = [UInt8](repeating: number, count: 1_000_000)
                    return try await connection.execute(echo, [.bytea(bytes)], within: .seconds(60)).first?.bytes(
                        "bytes")
                        == bytes
                }
            }
            for call in calls { #expect(try await call.value) }
        }
    }

    @Test func `scripts and statements of several tasks take turns`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            try await connection.runScript("create table step (n int)")
            let insert = Statement("insert", "insert into step values (1)")
            let tasks = (0..<60).map { number in
                Task {
                    _ = actor
                    guard number.isMultiple(of: 3) else {
                        _ = try await connection.execute(insert)
                        return
                    }
                    try await connection.runScript("insert into step values (10); insert into step values (10)")
                }
            }
            for task in tasks { try await task.value }
            let sum = Statement("sum", "select sum(n) from step")
            #expect(try await connection.execute(sum).one().int8("sum") == 40 + 400)
        }
    }

    // MARK: Preparing

    @Test func `a statement whose preparation failed is prepared once it can be`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let count = Statement("count", "select count(*) from later")
            let calls = (0..<3).map { _ in
                Task {
                    _ = actor
                    return try await connection.execute(count)
                }
            }
            for call in calls {
                await #expect { try await call.value } throws: { error in
                    if case .notMigrated = error as? PostgresError { true } else { false }
                }
            }
            try await connection.runScript("create table later ()")
            #expect(try await connection.execute(count).one().int8("count") == 0)
            #expect(try await preparedStatements(of: connection).contains { $0.contains("count") })
        }
    }

    @Test func `goes on as text when the server forgets what was prepared, as behind a pooler`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await connection.execute(Self.add, [.int4(1), .int4(2)])
            try await connection.runScript("deallocate all")
            #expect(try await connection.execute(Self.add, [.int4(1), .int4(2)]).one().int4("sum") == 3)
            let other = Statement("other", "select 1 as one")
            #expect(try await connection.execute(other).one().int4("one") == 1)
            #expect(try await preparedStatements(of: connection).isEmpty)
        }
    }

    /// The proxy holds back the server's answers until it has seen all calls, so that many are read at once.
    @Test func `keeps the order of calls that go out again as text`() async throws {
        let count = 20
        let gate = Gate(syncsNeeded: count)
        let proxy = try await DatabaseProxy { gate.pass($0) }
        defer { proxy.close() }
        try await withEmptyDatabase { actor, database in
            let connection = try await PostgresConnection.connect(
                to: try proxy.address(of: database), as: "test", on: database.loop)
            defer { connection.close() }
            try await connection.runScript("create table called (id serial, n int)")
            let note = Statement("note", "insert into called (n) values ($1)")
            _ = try await connection.execute(note, [.int4(0)])
            try await connection.runScript("deallocate all")
            gate.shut()
            let calls = (1...Int32(count)).map { number in
                Task {
                    _ = actor
                    return try await connection.execute(note, [.int4(number)])
                }
            }
            for call in calls { _ = try await call.value }
            let order = Statement("order", "select n from called order by id")
            #expect(try await connection.execute(order).map { $0.int4("n") } == Array(0...Int32(count)))
        }
    }

    @Test func `goes on as text when the name is taken, as behind a pooler`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            _ = try await connection.execute(Self.add, [.int4(1), .int4(2)])
            let name = try #require(try await preparedStatements(of: connection).first)
            let other = try await database.connect()
            try await other.runScript("prepare \"\(name)\" as select 'not this'")
            #expect(try await other.execute(Self.add, [.int4(1), .int4(2)]).one().int4("sum") == 3)
        }
    }

    @Test func `goes on as text when a migration changes what a statement returns`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript("create table changing as select 1 as a")
            let all = Statement("all", "select * from changing")
            #expect(try await connection.execute(all).one().int4("a") == 1)
            try await connection.runScript("alter table changing add b int default 2")
            #expect(try await connection.execute(all).one().int4("b") == 2)
            #expect(try await connection.execute(all).one().int4("b") == 2)
        }
    }

    private func preparedStatements(of connection: PostgresConnection) async throws -> [String] {
        try await connection.runScript("create temp table if not exists seen (name text)")
        try await connection.runScript("truncate seen; insert into seen select name from pg_prepared_statements")
        let names = Statement("names", "select name from seen")
        return try await connection.execute(names).map { $0.text("name") }
    }
}

/// From ``shut()`` on, lets no answer through until it has seen `syncsNeeded` syncs from the client.
private final class Gate: Sendable {
    private struct State {
        var isShut = false
        var syncs = 0
        var parses = 0
    }

    private let state = Locked(State())
    private let syncsNeeded: Int

    init(syncsNeeded: Int) { self.syncsNeeded = syncsNeeded }

    var parses: Int { state.withLock { $0.parses } }

    func shut() { state.withLock { $0.isShut = true } }

    func pass(_ message: DatabaseProxy.Message) -> DatabaseProxy.Action {
        if message.isFromClient {
            state.withLock { state in
                if state.isShut, message.type == "S" { state.syncs += 1 }
                if state.isShut, message.type == "P" { state.parses += 1 }
            }
        } else {
            // Polls, because this takes only milliseconds. The test's time limit ends the loop.
            while state.withLock({ $0.isShut && $0.syncs < syncsNeeded }) { usleep(200) }
        }
        return .pass
    }
}
