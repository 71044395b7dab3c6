import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(1)))
struct `A pipelined connection` {
    @Test func `answers in the order of the calls, whatever fails between`() async throws {
        try await withEmptyDatabase { actor, database in
            let connection = try await database.connect()
            let calls = (0..<300).map { number in
                Task {
                    _ = actor
                    let divisor = Int32(number % 3)
                    return try await connection.execute(
                        Statement("divide", "select $1::int4 / $2::int4"), [.int4(Int32(number)), .int4(divisor)]
                    ).first?.int4(0)
                }
            }
            for (number, call) in calls.enumerated() {
                let result = await call.result
                if number % 3 == 0 {
                    #expect(throws: PostgresError.self) { try result.get() }
                } else {
                    #expect(try result.get() == Int32(number / (number % 3)))
                }
            }
            #expect(connection.isOpen)
        }
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
            #expect(try await connection.execute(Statement("count", "select count(*) from kept")).first?.int8(0) == 2)
        }
    }
}
