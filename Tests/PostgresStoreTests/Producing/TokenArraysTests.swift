import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `An array of tokens` {
    private static let good = String(repeating: "0a", count: 32)
    private static let bad = "deadbeef" + String(repeating: "1", count: 57)
    private static let payload = #"'{"aps":{"alert":"x"}}'::text"#

    private static let calls = [
        "send('QUEUE', \(payload), tokens => TOKENS)", "send('QUEUE', \(payload), tokens => TOKENS, key => 'k')",
        "start_campaign('QUEUE', 'k', \(payload), tokens => TOKENS)", "add_to_list('QUEUE', LIST, tokens => TOKENS)",
        "preview_campaign('QUEUE', 'k', tokens => TOKENS)", "preview_message('QUEUE', \(payload), tokens => TOKENS)",
        "preview_waves('QUEUE', '09:00', tokens => TOKENS)",
        "preview_quiet_hours('QUEUE', '22:00-08:00', tokens => TOKENS)",
    ]

    private func run(_ call: String, _ tokens: String, in queue: QueueFixture) async throws {
        let list = try await queue.number("select pushq.new_list('\(QueueFixture.name)')")
        let call = call.replacing("QUEUE", with: "\(QueueFixture.name)").replacing("LIST", with: "\(list)")
        try await queue.run("select from pushq.\(call.replacing("TOKENS", with: tokens))")
    }

    @Test(
        arguments: calls,
        [
            ("array['\(good)', '\(good)', '\(bad)']", "token 3, which begins with “deadbeef”: the device token has 65"),
            ("array['\(good)', 'abc']", "token 2, which begins with “a”: the device token has 3"),
            ("array['\(good)', null]", "token 2: the device token is null"),
            ("array['\(good)', E'x\\n\\u202Exyzz']", "token 2, which begins with “x "),
            ("'[0:1]={\(good),zz}'", "token 2, which begins with “z”: the device token has a character"),
            ("array['\(bad)']", "the device token has 65 hexadecimal digits"),
        ])
    func `with a bad one among them is refused with its place and its beginning, and no more of it`(
        call: String, bad: (tokens: String, problem: String)
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let error = await #expect(throws: PostgresError.self, "\(call)") {
                try await run(call, bad.tokens, in: queue)
            }
            let said = error?.description ?? ""
            #expect(said.hasPrefix(bad.problem) && !said.contains("deadbeef1"), "\(call): \(said)")
        }
    }

    @Test func `is written in a preview as in the start, and users are previewed with theirs`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (name, other) = (QueueFixture.name, String(repeating: "0b", count: 32))
            try await queue.run("select pushq.register_device('\(name)', '\(Self.good)', user_key => 'anna')")
            for tokens in ["'{\(Self.good),\(other)}'", "array['\(Self.good.uppercased())', '\(other)']"] {
                #expect(
                    try await queue.texts(
                        """
                        select format('%s %s %s', recipients, inactive, unknown)
                        from pushq.preview_campaign('\(name)', 'k', tokens => \(tokens))
                        """) == ["2 0 1"])
            }
            #expect(
                try await queue.texts(
                    """
                    select format('%s %s', p.recipients, p.unknown)
                    from pushq.tokens_of_users('\(name)', array['anna']) u,
                         pushq.preview_campaign('\(name)', 'k', tokens => u.tokens) p
                    """) == ["1 0"])
        }
    }
}
