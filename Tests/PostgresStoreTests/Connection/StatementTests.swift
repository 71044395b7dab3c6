import Testing

@testable import PostgresStore

@Suite struct `A statement` {
    @Test func `gives its parameters numbers in the order in which they first occur`() {
        let statement = Statement("s", "select $b::int, $a_2, $b where x = any ($b)")
        #expect(statement.sql == "select $1::int, $2, $1 where x = any ($1)")
        #expect(statement.parameterNames == ["b", "a_2"])
    }

    @Test func `leaves texts and comments as they are`() {
        let text = #"""
            select '$a', 'it''s $a' -- as $a, it's here
            , e'\n', x ~ '_(timeout|interval)$'
            """#
        #expect(Statement("s", "\(text), $b").sql == "\(text), $1")
    }

    @Test func `takes its values by name, in any order`() {
        let statement = Statement("s", "select $a, $b, $c")
        let values = statement.values(of: ["c": .int4(3), "a": .int4(1)] + ["b": .int4(2)])
        let numbers = values.map { value -> Int32? in if case .int4(let number) = value { number } else { nil } }
        #expect(numbers == [1, 2, 3])
    }

    @Test func `takes values without names if its parameters are numbers`() {
        let statement = Statement("s", "select $2, $1")
        #expect(statement.sql == "select $2, $1")
        #expect(statement.values(of: [.int4(1), .int4(2)]).count == 2)
    }

    private func fault(_ result: ExitTest.Result?) throws -> String {
        String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
    }

    @Test func `names the parameter that it is not given`() async throws {
        let missing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Statement("claim", "select $a, $b").values(of: ["a": .int4(1), "c": .int4(2)])
        }
        #expect(try fault(missing).contains("claim is not given its parameter $b"))
        let few = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Statement("claim", "select $a, $b").values(of: ["a": .int4(1)])
        }
        #expect(try fault(few).contains(#"claim has the parameters ["a", "b"], and is given ["a"]"#))
    }
}
