import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A row` {
    private static let pairs = Statement(
        "pairs", "select n as first, n + 1 as second, null::int4 as none from generate_series(1, $1) n")

    private enum Answer: String { case now, later }
    private enum Rank: Int16 {
        case first = 1
        case second
    }
    private static let answers = Statement("answers", "select $1 as answer, 2::int2 as rank")

    @Test func `is read by the names of its columns, in any order and as often as wanted`() async throws {
        try await withEmptyDatabase { _, database in
            let rows = try await database.connect().execute(Self.pairs, [.int4(1000)])
            #expect(rows.count == 1000)
            for (index, row) in rows.enumerated() {
                let number = Int32(index + 1)
                if index.isMultiple(of: 3) { #expect(row.int4("second") == number + 1) }
                #expect(row.isNull("none") && row.optionalInt4("none") == nil)
                #expect(row.int4("first") == number && row.int4("first") == number)
                #expect(row.int4("second") == number + 1)
            }
        }
    }

    @Test func `that a statement always returns is an error when it is missing`() async throws {
        try await withEmptyDatabase { _, database in
            let rows = try await database.connect().execute(Self.pairs, [.int4(0)])
            let error = #expect(throws: PostgresError.self) { try rows.one() }
            #expect(error == .noRow("pairs"))
            #expect(error?.description.hasPrefix("pairs returned no row") == true)
        }
    }

    /// Returns the message that a programming error prints before it ends the process.
    private func fault(_ result: ExitTest.Result?) throws -> String {
        String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
    }

    @Test func `names its statement and the column that it does not have`() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await withEmptyDatabase { _, database in
                _ = try await database.connect().execute(Self.pairs, [.int4(1)]).one().int4("third")
            }
        }
        #expect(try fault(result).contains(#"pairs returns no column third, but ["first", "second", "none"]"#))
    }

    @Test func `names its statement and the column that has another type, or is null`() async throws {
        let mistyped = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await withEmptyDatabase { _, database in
                _ = try await database.connect().execute(Self.pairs, [.int4(1)]).one().int8("second")
            }
        }
        #expect(try fault(mistyped).contains("column second of pairs is read as type 20 but has type 23"))
        let null = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await withEmptyDatabase { _, database in
                _ = try await database.connect().execute(Self.pairs, [.int4(1)]).one().int4("none")
            }
        }
        #expect(try fault(null).contains("column none of pairs is null"))
    }

    @Test func `names its statement and the column whose value only a newer version knows`() async throws {
        try await withEmptyDatabase { _, database in
            let row = try await database.connect().execute(Self.answers, [.text("later")]).one()
            #expect(row.value("answer", as: Answer.self) == .later && row.value("rank", as: Rank.self) == .second)
        }
        let unknown = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await withEmptyDatabase { _, database in
                let row = try await database.connect().execute(Self.answers, [.text("never")]).one()
                _ = row.value("answer", as: Answer.self)
            }
        }
        #expect(try fault(unknown).contains("column answer of answers is never, which is no Answer of this version"))
    }

    @Test func `never has two columns of one name`() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            try await withEmptyDatabase { _, database in
                _ = try await database.connect().execute(Statement("twins", "select 1 as id, 2 as id"))
            }
        }
        #expect(try fault(result).contains(#"twins returns two columns of one name: ["id", "id"]"#))
    }
}
