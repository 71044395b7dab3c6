import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `A connection that is lost` {
    private static let sleep = Statement("sleep", "select pg_sleep(60)")
    private static let one = Statement("one", "select 1")
    private static let kill = Statement("kill", "select pg_terminate_backend($1)")

    @Test func `is dropped past a call's limit, and all its calls are told`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            var reasons: [PostgresError] = []
            connection.onClose = { reasons.append($0) }
            let stopwatch = Stopwatch()
            let slow = Task {
                _ = actor
                return try await connection.execute(Self.sleep, within: .milliseconds(200))
            }
            let behind = Task {
                _ = actor
                return try await connection.execute(Self.one)
            }
            await #expect(throws: PostgresError.timedOut("sleep", after: .milliseconds(200), .unknown)) {
                try await slow.value
            }
            #expect(stopwatch.quietTime < .seconds(2))
            await #expect { try await behind.value } throws: { error in
                if case .connectionLost("one", _, .unknown) = error as? PostgresError { true } else { false }
            }
            #expect(!connection.isOpen)
            #expect(reasons.count == 1)
            await #expect { try await connection.execute(Self.one) } throws: { error in
                if case .connectionLost("one", _, .notDone) = error as? PostgresError { true } else { false }
            }
        }
    }

    @Test func `what was not sent yet is known not to be done, and does not cost the connection`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let script = Task {
                _ = actor
                try await connection.runScript("select pg_sleep(0.3)")
            }
            let statement = Task {
                _ = actor
                return try await connection.execute(Self.one, within: .milliseconds(50))
            }
            await #expect(throws: PostgresError.timedOut("one", after: .milliseconds(50), .notDone)) {
                try await statement.value
            }
            try await script.value
            #expect(try await connection.execute(Self.one).count == 1)
        }
    }

    @Test func `is told with the server's reason when the server ends it`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let other = try await database.connect()
            let call = Task {
                _ = actor
                return try await connection.execute(Self.sleep)
            }
            let active = Statement(
                "active",
                "select count(*) from pg_stat_activity where pid = $1 and state = 'active' and query ~ 'pg_sleep'")
            try await eventually("the statement under way") {
                try await other.execute(active, [.int4(connection.backendProcessID)]).one().int8("count") == 1
            }
            _ = try await other.execute(Self.kill, [.int4(connection.backendProcessID)])
            await #expect { try await call.value } throws: { error in
                let error = error as? PostgresError
                return error?.description
                    == "the connection to the database was lost during sleep: "
                    + "terminating connection due to administrator command (it may have been carried out)"
                    && error?.isOutcomeUnknown == true && error?.isTransient == true
            }
        }
    }

    @Test func `is told with the server's reason in the middle of a script, too`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            await #expect {
                try await connection.runScript("select pg_terminate_backend(pg_backend_pid())")
            } throws: { error in
                (error as? PostgresError)?.isTransient == true
                    && "\(error)".contains("during a script: terminating connection due to administrator command")
            }
            #expect(!connection.isOpen)
        }
    }

    @Test func `is noticed although nothing is asked of it`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let other = try await database.connect()
            let closed = AsyncStream.makeStream(of: PostgresError.self)
            connection.onClose = { closed.continuation.yield($0) }
            _ = try await other.execute(Self.kill, [.int4(connection.backendProcessID)])
            let error = await closed.stream.first { _ in true }
            #expect(error?.description.contains("terminating connection") == true)
            #expect(!connection.isOpen)
        }
    }

    @Test func `fails what it has under way when it is closed`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let call = Task {
                _ = actor
                return try await connection.execute(Self.sleep)
            }
            let script = Task {
                _ = actor
                try await connection.runScript("select pg_sleep(60)")
            }
            await Task.yield()
            connection.close()
            await #expect(throws: PostgresError.self) { try await call.value }
            await #expect(throws: PostgresError.self) { try await script.value }
        }
    }

    @Test func `ends a script past its limit, or when it is closed meanwhile`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            await #expect(throws: PostgresError.timedOut("a script", after: .milliseconds(100), .unknown)) {
                try await connection.runScript("select pg_sleep(60)", within: .milliseconds(100))
            }
            #expect(!connection.isOpen)
            let second = try await database.connect()
            let script = Task {
                _ = actor
                try await second.runScript("select pg_sleep(60)")
            }
            await Task.yield()
            second.close()
            await #expect(throws: PostgresError.self) { try await script.value }
        }
    }

    @Test func `by a proxy in the middle of an answer is an error like any other`() async throws {
        let proxy = try await DatabaseProxy { message in
            !message.isFromClient && message.type == "D" ? .cut : .pass
        }
        defer { proxy.close() }
        try await withEmptyDatabase { _, database in
            let connection = try await PostgresConnection.connect(
                to: try proxy.address(of: database), as: "test", on: database.loop)
            await #expect { try await connection.execute(Self.one) } throws: { error in
                if case .connectionLost("one", _, .unknown) = error as? PostgresError { true } else { false }
            }
        }
    }
}
