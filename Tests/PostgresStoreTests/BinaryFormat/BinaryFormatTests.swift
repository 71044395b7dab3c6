import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10)))
struct `Binary format` {
    /// A time in the year 294276 once crashed every worker that read it.
    @Test(arguments: [Int64.min, .min + 1, -1, 0, .max - 946_684_800_000_000, .max - 1, .max])
    func `of a time overflows for none`(microseconds: Int64) {
        let decoded = PostgresEpoch.decode(microseconds)
        #expect((decoded == .max) == (microseconds == .max) && (decoded == .min) == (microseconds == .min))
        #expect(decoded >= microseconds || microseconds > .max - 946_684_800_000_000)
        let encoded = PostgresEpoch.encode(microseconds)
        #expect((encoded == .max) == (microseconds == .max) && (encoded == .min) == (microseconds == .min))
    }

    @Test func `scalars come back as they were sent`() async throws {
        try await withEmptyDatabase { _, database in
            let echo = Statement(
                "echo",
                """
                select $1::bool as bool, $2::int2 as int2, $3::int4 as int4, $4::int8 as int8, $5::float8 as float8,
                       $6::text as text, $7::json as json, $8::jsonb as jsonb, $9::bytea as bytes
                """)
            let connection = try await database.connect()
            let row = try await connection.execute(
                echo,
                [
                    .bool(true), .int2(-2), .int4(.min), .int8(.max), .float8(-0.1), .text("grüße 🙂 \"\\"),
                    .text(#"{"a" : 1}"#), .text(#"{"a": [1, null]}"#), .bytea([0, 1, 255]),
                ]
            ).one()
            #expect(row.bool("bool"))
            #expect(row.int2("int2") == -2)
            #expect(row.int4("int4") == .min)
            #expect(row.int8("int8") == .max)
            #expect(row.float8("float8") == -0.1)
            #expect(row.text("text") == "grüße 🙂 \"\\")
            #expect(row.text("json") == #"{"a" : 1}"#)
            #expect(row.text("jsonb") == #"{"a": [1, null]}"#)
            #expect(row.bytes("bytes") == [0, 1, 255])
        }
    }

    @Test func `nulls of every type stay null`() async throws {
        try await withEmptyDatabase { _, database in
            let nulls = Statement(
                "nulls",
                """
                select $1 as bool, $2 as int2, $3 as int4, $4 as int8, $5 as float8, $6 as text, $7 as bytes, $8 as time,
                       $9 as interval, $10 as date
                """)
            let connection = try await database.connect()
            let row = try await connection.execute(
                nulls,
                [
                    .bool(nil), .int2(nil), .int4(nil), .int8(nil), .float8(nil), .text(nil), .bytea(nil),
                    .timestamptz(nil),
                    .interval(nil), .date(nil),
                ]
            ).one()
            #expect(row.isNull("bool") && row.isNull("interval") && row.isNull("date"))
            #expect(row.optionalInt2("int2") == nil)
            #expect(row.optionalInt4("int4") == nil)
            #expect(row.optionalInt8("int8") == nil)
            #expect(row.optionalFloat8("float8") == nil)
            #expect(row.optionalText("text") == nil)
            #expect(row.optionalBytes("bytes") == nil)
            #expect(row.optionalTime("time") == nil)
        }
    }

    /// The test asks the server for its interpretation as text.
    @Test func `times are what PostgreSQL says they are`() async throws {
        try await withEmptyDatabase { _, database in
            let show = Statement(
                "show",
                """
                select $moment::timestamptz at time zone 'UTC' = '2026-11-21 03:04:05.000006' as moment_is_right,
                       $interval::interval = '90000.5 seconds' as interval_is_right, $day::date = '2026-11-21' as day_is_right,
                       $moment as moment, $day as day
                """)
            let connection = try await database.connect()
            let moment: Int64 = 1_795_230_245_000_006
            let day = try #require(CalendarDay("2026-11-21"))
            let row = try await connection.execute(
                show, ["moment": .timestamptz(moment), "interval": .interval(.seconds(90000.5)), "day": .date(day)]
            ).one()
            #expect(row.bool("moment_is_right") && row.bool("interval_is_right") && row.bool("day_is_right"))
            #expect(row.timestamptz("moment") == moment)
            #expect(row.date("day") == day)
        }
    }

    @Test func `infinity is the end of all times`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement(
                "infinity",
                """
                select $end::timestamptz = 'infinity' as is_end, $start::timestamptz = '-infinity' as is_start,
                       $end as last, $start as first
                """)
            let connection = try await database.connect()
            let row = try await connection.execute(
                statement, ["start": .timestamptz(.min), "end": .timestamptz(.max)]
            ).one()
            #expect(row.bool("is_end") && row.bool("is_start"))
            #expect(row.timestamptz("last") == .max)
            #expect(row.timestamptz("first") == .min)
        }
    }

    @Test func `arrays come back as they were sent`() async throws {
        try await withEmptyDatabase { _, database in
            let echo = Statement(
                "arrays",
                """
                select $1::bool[] = '{t,f}' as bools_are_right, $2::int2[] = '{1,-1}' as int2s_are_right, $3::int4[] as int4s,
                       $4::int8[] as int8s, $5::text[] as texts, $6::bytea[] as bytes,
                       $7::timestamptz[] = array['infinity', '2000-01-01 00:00:01Z']::timestamptz[] as times_are_right
                """)
            let connection = try await database.connect()
            let row = try await connection.execute(
                echo,
                [
                    .boolArray([true, false]), .int2Array([1, -1]), .int4Array([.max, .min]),
                    .int8Array([.max, .min, 0]), .textArray(["", "a,b\"{}", "NULL"]), .byteaArray([[0], [], [1, 2]]),
                    .timestamptzArray([.max, 946_684_801_000_000]),
                ]
            ).one()
            #expect(row.bool("bools_are_right") && row.bool("int2s_are_right") && row.bool("times_are_right"))
            #expect(row.int4Array("int4s") == [.max, .min])
            #expect(row.int8Array("int8s") == [.max, .min, 0])
            #expect(row.textArray("texts") == ["", "a,b\"{}", "NULL"])
            #expect(row.byteArrays("bytes") == [[0], [], [1, 2]])
        }
    }

    @Test func `empty arrays and arrays with nulls are understood`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement(
                "nullable",
                """
                select $1::int8[] = '{}' as is_empty, $1 as empty, $2::int8[] = '{1,NULL}' as has_null,
                       $3::text[] = '{NULL,a}' as has_null_text, $4::timestamptz[] is not null as has_null_time,
                       $5::bytea[] = array[int2send(1::int2), null] as has_null_bytes, null::bytea[] as nothing
                """)
            let connection = try await database.connect()
            let row = try await connection.execute(
                statement,
                [
                    .int8Array([]), .optionalInt8Array([1, nil]), .optionalTextArray([nil, "a"]),
                    .optionalTimestamptzArray([nil]), .optionalByteaArray([[0, 1], nil]),
                ]
            ).one()
            #expect(row.bool("is_empty") && row.bool("has_null") && row.bool("has_null_text"))
            #expect(row.bool("has_null_time") && row.bool("has_null_bytes"))
            #expect(row.int8Array("empty") == [])
            #expect(row.byteArrays("nothing").isEmpty)
        }
    }

    @Test func `a number goes where the statement wants another width`() async throws {
        try await withEmptyDatabase { _, database in
            let statement = Statement("widths", "select sum(x)::int8 from unnest($1::int8[]) x where x < $2")
            let connection = try await database.connect()
            let rows = try await connection.execute(statement, [.int4Array([1, 2, 3]), .int2(3)])
            #expect(rows.first?.int8("sum") == 3)
        }
    }

    @Test func `arrays of a hundred thousand go both ways`() async throws {
        try await withEmptyDatabase { _, database in
            let numbers = (0..<100_000).map { Int64($0) &* 0x1e37_79b9_7f4a_7c15 }
            let tokens = numbers.map { number in (0..<32).map { UInt8(truncatingIfNeeded: number >> ($0 % 8)) } }
            let connection = try await database.connect()
            let rows = try await connection.execute(
                Statement("many", "select $1::int8[] as numbers, $2::bytea[] as tokens"),
                [.int8Array(numbers), .byteaArray(tokens)])
            let row = try #require(rows.first)
            #expect(row.int8Array("numbers") == numbers)
            #expect(row.byteArrays("tokens") == ByteArrays(tokens))
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
            #expect(rows.first?.text("to_char") == text)
        }
    }

    @Test(arguments: [
        "2026-02-29", "2026-13-01", "26-01-01", "2026-1-1", "", "2026-11-21 ", "2026-00-10", "+026-01-01",
    ])
    func `what is no day is none`(text: String) {
        #expect(CalendarDay(text) == nil)
    }
}
