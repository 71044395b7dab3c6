import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `COPY with PostgreSQL` {
    private static let makeTable = "create table copied (n int8 not null, token bytea not null, name text)"
    private static let copy = Statement("copy", "copy copied from stdin (format binary)")
    private static let copyText = Statement("copy_text", "copy copied from stdin")
    private static let check = Statement(
        "check",
        """
        select count(*) as rows, sum(n)::int8, count(name) as names,
               count(*) filter (where token = decode(lpad(to_hex(n), 64, '0'), 'hex')) as tokens
        from copied
        """)

    @Test func `takes a hundred thousand rows in binary`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.makeTable)
            let count = try await connection.copyIn(Self.copy, within: .seconds(30)) { writer in
                var rows = CopyRows()
                for number in 0..<Int64(100_000) {
                    rows.startRow(columns: 3)
                    rows.add(number)
                    rows.add(Self.token(number).span)
                    if number.isMultiple(of: 2) { rows.addNull() } else { rows.add("ü\(number)") }
                    if rows.isFull { try await writer.write(rows.take()) }
                }
                try await writer.write(rows.takeLast())
            }
            #expect(count == 100_000)
            let row = try #require(await connection.execute(Self.check).first)
            #expect(row.int8("rows") == 100_000 && row.int8("sum") == 4_999_950_000)
            #expect(row.int8("names") == 50_000 && row.int8("tokens") == 100_000)
        }
    }

    @Test func `takes text, cut anywhere`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.makeTable)
            let count = try await connection.copyIn(Self.copyText, within: .seconds(30)) { writer in
                try await writer.write(Array("1\t\\\\x01\t\\N\n2\t\\".utf8))
                try await writer.write([])
                try await writer.write(Array("\\x02\tname\n".utf8))
            }
            #expect(count == 2)
        }
    }

    @Test func `copies nothing when its source fails, and the connection goes on`() async throws {
        struct BrokenLine: Error, Equatable {}
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.makeTable)
            await #expect(throws: BrokenLine()) {
                try await connection.copyIn(Self.copyText, within: .seconds(30)) { writer in
                    try await writer.write(Array("1\t\\\\x01\t\\N\n".utf8))
                    throw BrokenLine()
                }
            }
            #expect(try await connection.execute(Self.check).one().int8("rows") == 0)
        }
    }

    @Test func `tells what the server does not accept, without the data`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.makeTable)
            let error = await #expect(throws: PostgresError.self) {
                _ = try await connection.copyIn(Self.copyText, within: .seconds(30)) { writer in
                    try await writer.write(Array("secret\t\\\\x01\t\\N\n".utf8))
                }
            }
            #expect(error?.description == #"copy_text: invalid input syntax for type bigint: "…" (22P02)"#)
            let missing = Statement("missing", "copy nowhere from stdin")
            await #expect { try await connection.copyIn(missing, within: .seconds(30)) { _ in } } throws: { error in
                if case .notMigrated = error as? PostgresError { true } else { false }
            }
            #expect(connection.isOpen)
        }
    }

    @Test func `past its limit it costs the connection`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let other = try await database.connect()
            try await connection.runScript(Self.makeTable)
            try await other.runScript("begin; lock table copied")
            await #expect(throws: PostgresError.timedOut("copy_text", after: .milliseconds(100), .unknown)) {
                _ = try await connection.copyIn(Self.copyText, within: .milliseconds(100)) { _ in }
            }
            #expect(!connection.isOpen)
        }
    }

    @Test func `past its limit it does so, too, if only its source was slow`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.makeTable)
            await #expect(throws: PostgresError.timedOut("copy_text", after: .milliseconds(100), .unknown)) {
                _ = try await connection.copyIn(Self.copyText, within: .milliseconds(100)) { writer in
                    try await Task.sleep(for: .milliseconds(200))
                    try await writer.write(Array("1\t\\\\x01\t\\N\n".utf8))
                }
            }
            #expect(!connection.isOpen)
        }
    }

    @Test func `waits for a server that is slower than the source`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let other = try await database.connect()
            try await connection.runScript("create table locked (t text)")
            try await connection.runScript("create table gate (n int); insert into gate values (1)")
            try await connection.runScript(
                """
                create function wait() returns trigger language plpgsql as
                  'begin perform from gate for update; return new; end';
                create trigger wait before insert on locked for each row execute function wait()
                """)
            try await other.runScript("begin; select * from gate for update")
            // The server stops at the first row. It reads no more, and the kernel's buffers cannot hold the rest.
            var written = 0
            let line = Array((String(repeating: "x", count: 999) + "\n").utf8)
            await #expect(throws: PostgresError.self) {
                _ = try await connection.copyIn(
                    Statement("stuck", "copy locked from stdin"), within: .milliseconds(500)
                ) { writer in
                    while written < 100_000 {
                        try await writer.write(line)
                        written += 1
                    }
                }
            }
            #expect(written < 50_000)
        }
    }

    private static func token(_ number: Int64) -> [UInt8] {
        [UInt8](repeating: 0, count: 24) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }
}
