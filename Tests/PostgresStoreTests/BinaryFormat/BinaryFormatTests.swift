import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(5)))
struct `Binary format` {
    @Test func `scalars come back as they were sent`() async throws {
        try await withEmptyDatabase { _, database in
            let echo = Statement(
                "echo",
                "select $1::bool, $2::int2, $3::int4, $4::int8, $5::float8, $6::text, $7::json, $8::jsonb, $9::bytea, $10::uuid"
            )
            let connection = try await database.connect()
            let row = try #require(
                await connection.execute(
                    echo,
                    [
                        .bool(true), .int2(-2), .int4(.min), .int8(.max), .float8(-0.1), .text("grüße 🙂 \"\\"),
                        .json(#"{"a" : 1}"#),
                        .jsonb(#"{"a": [1, null]}"#), .bytea([0, 1, 255]),
                        .uuid(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
                    ]
                ).first)
            #expect(row.bool(0))
            #expect(row.int2(1) == -2)
            #expect(row.int4(2) == .min)
            #expect(row.int8(3) == .max)
            #expect(row.float8(4) == -0.1)
            #expect(row.text(5) == "grüße 🙂 \"\\")
            #expect(row.text(6) == #"{"a" : 1}"#)
            #expect(row.text(7) == #"{"a": [1, null]}"#)
            #expect(row.bytes(8) == [0, 1, 255])
            #expect(row.withBytes(8) { $0.count } == 3)
            #expect(row.uuid(9) == 0x0123_4567_89ab_cdef_0011_2233_4455_6677)
        }
    }

    @Test func `nulls of every type stay null`() async throws {
        try await withEmptyDatabase { _, database in
            let parameters: [Parameter] = [
                .bool(nil), .int2(nil), .int4(nil), .int8(nil), .float8(nil), .text(nil), .json(nil), .jsonb(nil),
                .bytea(nil),
                .timestamptz(nil), .interval(nil), .date(nil), .uuid(nil),
            ]
            let columns = (1...parameters.count).map { "$\($0)" }.joined(separator: ", ")
            let connection = try await database.connect()
            let row = try #require(await connection.execute(Statement("nulls", "select \(columns)"), parameters).first)
            #expect(parameters.indices.allSatisfy { row.isNull($0) })
            #expect(row.optionalInt8(3) == nil)
            #expect(row.optionalText(5) == nil)
            #expect(row.optionalBytes(8) == nil)
            #expect(row.optionalTimestamptz(9) == nil)
        }
    }

    /// The server is asked in text what it has understood.
    @Test func `times are what PostgreSQL says they are`() async throws {
        try await withEmptyDatabase { _, database in
            let show = Statement(
                "show",
                """
                select $1::timestamptz at time zone 'UTC' = '2026-11-21 03:04:05.000006', $2::interval = '90000.5 seconds',
                       $3::date = '2026-11-21', $1, $2, $3, '1 day 2 hours'::interval, '1 month'::interval
                """)
            let connection = try await database.connect()
            let moment: Int64 = 1_795_230_245_000_006
            let day = try #require(CalendarDay("2026-11-21"))
            let row = try #require(
                await connection.execute(show, [.timestamptz(moment), .interval(.seconds(90000.5)), .date(day)]).first)
            #expect(row.bool(0) && row.bool(1) && row.bool(2))
            #expect(row.timestamptz(3) == moment)
            #expect(row.interval(4) == .seconds(90000.5))
            #expect(row.date(5) == day)
            #expect(row.interval(6) == .seconds(93600))
            #expect(row.interval(7) == .seconds(30 * 86400))
        }
    }

    @Test func `infinity is the end of all times`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement(
                "infinity", "select $1::timestamptz = 'infinity', $2::timestamptz = '-infinity', $1, $2")
            let connection = try await database.connect()
            let row = try #require(await connection.execute(statement, [.timestamptz(.max), .timestamptz(.min)]).first)
            #expect(row.bool(0) && row.bool(1))
            #expect(row.timestamptz(2) == .max)
            #expect(row.timestamptz(3) == .min)
        }
    }

    @Test func `arrays come back as they were sent`() async throws {
        try await withEmptyDatabase { _, database in
            let echo = Statement(
                "arrays",
                """
                select $1::bool[], $2::int2[], $3::int4[], $4::int8[], $5::float8[], $6::text[], $7::bytea[], $8::bytea[],
                       $9::timestamptz[] = array['infinity', '2000-01-01 00:00:01Z']::timestamptz[], $10::uuid[]::text
                """)
            let tokens: ByteArrays = [[1, 2, 3], [], [255]]
            let connection = try await database.connect()
            let row = try #require(
                await connection.execute(
                    echo,
                    [
                        .boolArray([true, false]), .int2Array([1, -1]), .int4Array([.max, .min]),
                        .int8Array([.max, .min, 0]),
                        .float8Array([0.5, -.infinity]), .textArray(["", "a,b\"{}", "NULL"]),
                        .byteaArray([[0], [1, 2]]),
                        .byteArrays(tokens), .timestamptzArray([.max, 946_684_801_000_000]), .uuidArray([1]),
                    ]
                ).first)
            #expect(row.boolArray(0) == [true, false])
            #expect(row.int2Array(1) == [1, -1])
            #expect(row.int4Array(2) == [.max, .min])
            #expect(row.int8Array(3) == [.max, .min, 0])
            #expect(row.float8Array(4) == [0.5, -.infinity])
            #expect(row.textArray(5) == ["", "a,b\"{}", "NULL"])
            #expect(row.byteArrays(6) == [[0], [1, 2]])
            #expect(row.byteArrays(7) == tokens)
            #expect(row.bool(8))
            #expect(row.text(9) == "{00000000-0000-0000-0000-000000000001}")
        }
    }

    @Test func `empty arrays and arrays with nulls are understood`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement(
                "nullable",
                """
                select $1::int8[] = '{}', $1::int8[], $2::int4[] = '{1,NULL}', $3::int8[] = '{NULL}', $4::text[] = '{NULL,a}',
                       $5::bytea[] = array[null, '\\x01'::bytea], $6::timestamptz[] is not null, null::bytea[]
                """)
            let connection = try await database.connect()
            let row = try #require(
                await connection.execute(
                    statement,
                    [
                        .int8Array([]), .optionalInt4Array([1, nil]), .optionalInt8Array([nil]),
                        .optionalTextArray([nil, "a"]),
                        .optionalByteaArray([nil, [1]]), .optionalTimestamptzArray([nil]),
                    ]
                ).first)
            #expect(row.bool(0) && row.bool(2) && row.bool(3) && row.bool(4) && row.bool(5) && row.bool(6))
            #expect(row.int8Array(1) == [])
            #expect(row.byteArrays(7).isEmpty)
        }
    }

    @Test func `a number goes where the statement wants another width`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement("widths", "select sum(x)::int8 from unnest($1::int8[]) x where x < $2")
            let connection = try await database.connect()
            let rows = try await connection.execute(statement, [.int4Array([1, 2, 3]), .int2(3)])
            #expect(rows.first?.int8(0) == 3)
        }
    }

    @Test func `arrays of a hundred thousand go both ways`() async throws {
        try await withEmptyDatabase { _, database in
            let numbers = (0..<100_000).map { Int64($0) &* 0x1e37_79b9_7f4a_7c15 }
            let tokens = ByteArrays(
                numbers.map { number in (0..<32).map { UInt8(truncatingIfNeeded: number >> ($0 % 8)) } })
            let connection = try await database.connect()
            let rows = try await connection.execute(
                Statement("many", "select $1::int8[], $2::bytea[]"), [.int8Array(numbers), .byteArrays(tokens)])
            let row = try #require(rows.first)
            #expect(row.int8Array(0) == numbers)
            #expect(row.byteArrays(1) == tokens)
        }
    }

    @Test(arguments: ["2000-01-01", "2000-02-29", "2026-11-21", "1999-12-31", "2100-03-01", "0001-01-01", "9999-12-31"])
    func `a day reads and prints, and PostgreSQL agrees`(text: String) async throws {
        let day = try #require(CalendarDay(text))
        #expect(day.description == text)
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            let rows = try await connection.execute(
                Statement("day", "select to_char($1::date, 'YYYY-MM-DD')"), [.date(day)])
            #expect(rows.first?.text(0) == text)
        }
    }

    @Test(arguments: [
        "2026-02-29", "2026-13-01", "26-01-01", "2026-1-1", "", "2026-11-21 ", "2026-00-10", "+026-01-01",
    ])
    func `what is no day is none`(text: String) {
        #expect(CalendarDay(text) == nil)
    }
}
