import PostgresStore
import TestSupport
import Testing

/// A key stands for one content. Programming languages write the same JSON differently, and a repetition may come from
/// another program, or from a column of type jsonb.
@Suite(.timeLimit(.minutes(10))) struct `A payload under a key` {
    private static let name = QueueFixture.name

    /// Pairs of members beside `aps` whose texts differ and whose values are the same.
    private static let same = [
        (#""order":"4e1b""#, #""order": "4e1b""#),
        (
            #""id":"5f0c4a7e-1b2d-4e55-8a9b-0c1d2e3f4a5b","n":10"#,
            #""n":10, "id" : "5f0c4a7e-1b2d-4e55-8a9b-0c1d2e3f4a5b""#
        ),
        (#""a":"é""#, #""a":"\u00e9""#), (#""a":"😀""#, #""a":"\ud83d\uDE00""#), (#""a":"a/b""#, #""a":"a\/b""#),
        (#""é":1"#, #""\u00E9":1"#),
        (#""a":1"#, #""a":1.0"#), (#""a":1"#, #""a":1e0"#), (#""a":[1.5,20,0]"#, #""a":[1.50, 2E+1, -0.00]"#),
        (#""a":0.001"#, #""a":1e-3"#), (#""a":1e99,"b":1"#, #""b":1,"a":10e98"#),
        (#""a":"1e131071""#, #""a": "1e131071""#), (#""a":"quoted \" 1e999""#, #""a": "quoted \u0022 1e999""#),
        (#""a":"\\u0000""#, #""a": "\\u0000""#),
        // PostgreSQL takes the last of two members with the same name, as most parsers do.
        (#""a":{"b":1,"b":2}"#, #""a":{"b":2}"#),
        // Numbers that are compared as text are equal if their texts are.
        (#""a":1e131071"#, #""a":1e131071"#), (#""a":1e999999999"#, #""a":1e999999999"#),
    ]

    private static let different = [
        (#""a":"1.0""#, #""a":"1""#), (#""a":1.0"#, #""a":"1.0""#), (#""a":"x 1.0,""#, #""a":"x 1,""#),
        (#""a":10"#, #""a":1"#), (#""a":1.05"#, #""a":1.5"#), (#""a":-1.0"#, #""a":1.0"#),
        (#""a":100.0"#, #""a":10.0"#),
        (#""a":"\u00e9""#, #""a":"\\u00e9""#), (#""a":"4e1b""#, #""a":"4e10b""#), (#""a":"é""#, #""a":"e""#),
        (#""a":1e131071"#, #""a":1e131070"#), (#""a":1e999999999"#, #""a":1e999999998"#),
        (#""a":[1,2]"#, #""a":[2,1]"#),
        (#""a":null"#, #""b":null"#),
    ]

    /// The calls that take a key, each with a payload that contains `members`.
    private static func calls(_ members: String, type: String) -> [String] {
        let alert = #"'{"aps":{"alert":"x"},\#(members)}'::\#(type)"#
        let update = #"'{"aps":{"timestamp":1,"event":"update","content-state":{}},\#(members)}'::\#(type)"#
        return [
            "pushq.send('\(name)', \(alert), user_key => 'u', key => 'one')",
            "(pushq.send_many('\(name)', array[\(alert)], user_keys => '{u}', keys => '{many}'))[1]",
            "pushq.start_campaign('\(name)', 'campaign', \(alert))",
            "pushq.start_campaign('\(name)', 'tokens', \(alert), tokens => '{ab}')",
            "pushq.broadcast('\(name)', 'dGhlaXJz', \(update), expiration => 0, key => 'all')",
        ]
    }

    private func withQueue(_ body: @escaping @Sendable (QueueFixture) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run("select pushq.register_channel('\(Self.name)', 'dGhlaXJz', 0)")
            try await body(queue)
        }
    }

    @Test(arguments: same) func `is the same however its JSON is written`(first: String, again: String) async throws {
        try await withQueue { queue in
            for (call, repetition) in zip(Self.calls(first, type: "json"), Self.calls(again, type: "text")) {
                let root = try await queue.number("select \(call)")
                #expect(try await queue.number("select \(repetition)") == root, "\(call)")
                #expect(try await queue.number("select \(call)") == root, "\(call)")
            }
            guard !first.contains("1e999999999") else { return }
            for (call, repetition) in zip(Self.calls(first, type: "json"), Self.calls(again, type: "jsonb"))
            where !first.contains("1e131071") || first.contains(#""1e131071"#) {
                #expect(try await queue.number("select \(repetition)") == queue.number("select \(call)"), "\(call)")
            }
        }
    }

    @Test(arguments: different)
    func `is another where it means something else`(first: String, other: String) async throws {
        try await withQueue { queue in
            for (call, another) in zip(Self.calls(first, type: "json"), Self.calls(other, type: "json")) {
                _ = try await queue.number("select \(call)")
                await #expect {
                    try await queue.number("select \(another)")
                } throws: { error in
                    "\(error)".contains("was used for another")
                }
            }
        }
    }

    /// The key is looked up before the payload is checked.
    @Test(arguments: [
        (#"{"aps":{"alert":"\u0000"}}"#, #"\u"#), (#"{"aps":{"alert":"\ud83d"}}"#, #"\u"#),
        (
            #"{"aps":{"alert":"x"},"a":\#(String(repeating: "[", count: 4000))\#(String(repeating: "]", count: 4000))}"#,
            "bytes"
        ),
        (#"{"aps":{"alert":"x"},"a":\#(String(repeating: "9", count: 140_000))}"#, "bytes"),
        (#"{"aps":{"alert":"x"},"a":[\#(String(repeating: "1e131071,", count: 100_000))1]}"#, "bytes"),
        ("7", "not a JSON object"),
    ])
    func `that cannot be sent is refused with the same words as without a key`(payload: String, problem: String)
        async throws
    {
        try await withQueue { queue in
            var errors: [String] = []
            for key in ["", ", key => 'k'"] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run(
                        """
                        set statement_timeout = '10s';
                        select pushq.send('\(Self.name)', $payload$\(payload)$payload$, user_key => 'u'\(key))
                        """)
                }
                errors.append("\(try #require(error))")
            }
            #expect(errors[0] == errors[1] && errors[0].contains(problem), "\(errors)")
        }
    }

    @Test func `is for the same user, whether alone or as a list of one`() async throws {
        try await withQueue { queue in
            func send(_ key: String, to users: String) async throws -> Int {
                try await queue.number(
                    #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', \#(users), key => '\#(key)')"#)
            }
            let one = try await send("one", to: "user_key => 'a'")
            for users in ["user_keys => '{a}'", "user_keys => '{a,a}'", "user_key => 'a'"] {
                #expect(try await send("one", to: users) == one)
            }
            let list = try await send("list", to: "user_keys => '{b}'")
            #expect(try await send("list", to: "user_key => 'b'") == list)
            for users in ["user_keys => '{a,b}'", "user_keys => '{b}'", "user_key => 'b'", "user_keys => '{}'"] {
                await #expect(throws: PostgresError.self, "\(users)") { try await send("one", to: users) }
            }
        }
    }
}
