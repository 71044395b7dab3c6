import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A push to a website in Safari` {
    private static let calls = [
        "send(QUEUE, PAYLOAD, array[repeat('ab', 32)])", "send(QUEUE, PAYLOAD, user_key => 'anna')",
        "send(QUEUE, PAYLOAD, user_keys => '{anna,ben}')", "send_many(QUEUE, array[PAYLOAD], array[repeat('ab', 32)])",
        "start_campaign(QUEUE, 'k', PAYLOAD)", "add_schedule(QUEUE, 's', '0 7 * * *', PAYLOAD)",
    ]

    private static func sql(_ call: String, payload: String) -> String {
        "select pushq."
            + call.replacing("QUEUE", with: "'acme/web.com.acme/sandbox'").replacing("PAYLOAD", with: "'\(payload)'")
    }

    @Test func `is refused without url-args, whichever function sends it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("update pushq.app set bundle_id = 'web.com.acme'")
            for urlArguments in ["", #","url-args":null"#] {
                let payload = #"{"aps":{"alert":{"title":"x","body":"y"}\#(urlArguments)}}"#
                for call in Self.calls {
                    let error = await #expect(throws: PostgresError.self) {
                        try await queue.run(Self.sql(call, payload: payload))
                    }
                    let problem = "aps.url-args is missing, which a push to a website requires"
                    #expect(error?.description.contains(problem) == true, "\(call)")
                }
            }
            let payload = #"{"aps":{"alert":{"title":"x","body":"y"},"url-args":[]}}"#
            for call in Self.calls { try await queue.run(Self.sql(call, payload: payload)) }
        }
    }

    @Test func `is refused first for what is wrong with any push`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("update pushq.app set bundle_id = 'web.com.acme'")
            for call in Self.calls where !call.hasPrefix("add_schedule") {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run(
                        Self.sql("\(call.dropLast()), priority => 7)", payload: #"{"aps":{"alert":"x"}}"#))
                }
                #expect(error?.description.contains("priority 7 is unknown: use 10, 5 or 1") == true, "\(call)")
            }
        }
    }
}
