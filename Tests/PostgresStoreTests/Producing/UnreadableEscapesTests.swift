import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// PostgreSQL's type json accepts \u escapes that are not characters, and fails when any member of such a value is
/// read.
@Suite(.timeLimit(.minutes(10))) struct `A payload with an escape that is not a character` {
    private static let name = QueueFixture.name
    private static let problem = #"the payload has a \u escape that is not a character: write the character itself"#

    private static let payloads = [
        #"{"aps":{"alert":"\ud83d"}}"#, #"{"aps":{"alert":"\u0000"}}"#, #"{"aps":{"alert":"\ude00\ud83d"}}"#,
        #"{"aps":{"alert":"x"},"a":["\u0000"]}"#, #"{"aps":{"alert":"x"},"\ud83d":1}"#,
        #"{"aps":{"event":"\ud83d","timestamp":1,"content-state":{}}}"#,
        // Longer than usual payloads.
        #"{"aps":{"alert":"\ud83d"},"a":"\#(String(repeating: "x", count: 9000))"}"#,
    ]

    /// Calls of every function that takes a payload, in each of the ways in which it reads one.
    private static let calls = [
        "pushq.send(QUEUE, PAYLOAD, tokens => '{aa}')", "pushq.send(QUEUE, PAYLOAD, tokens => '{aa,bb}')",
        "pushq.send(QUEUE, PAYLOAD, tokens => '{aa}', key => 'a')", "pushq.send(QUEUE, PAYLOAD, user_key => 'ann')",
        "pushq.send(QUEUE, PAYLOAD, user_keys => '{ann,bob}', push_type => 'liveactivity')",
        "pushq.send(QUEUE, PAYLOAD, tokens => '{aa,bb}', push_type => 'liveactivity', replace_waiting => true)",
        "pushq.send_many(QUEUE, array[PAYLOAD], tokens => '{aa}')",
        "pushq.send_many(QUEUE, array[PAYLOAD], user_keys => '{ann}', push_type => 'liveactivity')",
        """
        pushq.send_many(QUEUE, array[PAYLOAD], tokens => '{aa}', push_type => 'liveactivity', replace_waiting => true)
        """,
        "pushq.broadcast(QUEUE, 'dGhlaXJz', PAYLOAD, expiration => 0)",
        "pushq.start_campaign(QUEUE, 'k', PAYLOAD)", "pushq.start_campaign(QUEUE, 'k', PAYLOAD, tokens => '{aa}')",
        "pushq.start_campaign(QUEUE, 'k', PAYLOAD, list => pushq.new_list(QUEUE))",
        "pushq.start_campaign(QUEUE, 'k', PAYLOAD, push_type => 'liveactivity')",
        "pushq.preview_campaign(QUEUE, 'k', payload => PAYLOAD)", "pushq.preview_message(QUEUE, PAYLOAD)",
        "pushq.add_schedule(QUEUE, 's', '@daily', PAYLOAD)",
        "pushq.add_schedule(QUEUE, 's', '@daily', PAYLOAD, replaces => true)",
    ]

    private func refusal(_ query: String, _ queue: QueueFixture) async -> String {
        do {
            try await queue.run("select \(query.replacing("QUEUE", with: "'\(Self.name)'"))")
            return "accepted"
        } catch PostgresError.raised(let message, _) {
            return message
        } catch {
            return "PostgreSQL's own error: \(error)"
        }
    }

    @Test func `is refused by all functions in the same words`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_channel('\(Self.name)', 'dGhlaXJz', 0)")
            for payload in Self.payloads {
                for call in Self.calls {
                    let refusal = await refusal(call.replacing("PAYLOAD", with: "'\(payload)'::json"), queue)
                    #expect(
                        refusal == (call.contains("send_many") ? "message 1: " : "") + Self.problem,
                        "\(call): \(payload)")
                }
            }
        }
    }

    /// A schedule's variants are jsonb, which cannot contain such an escape.
    @Test func `is refused as that of a variant, and in a name of one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let payload = #"'{"aps":{"alert":"x"}}'::json"#
            for variants in [
                #"[{"name":"b","share":0.5,"payload":{"aps":{"alert":"\ud83d"}}}]"#,
                #"[{"name":"\u0000","share":0.5,"payload":{"aps":{"alert":"x"}}}]"#,
            ] {
                for call in [
                    "pushq.start_campaign(QUEUE, 'k', \(payload), variants => VARIANTS)",
                    "pushq.start_campaign(QUEUE, 'k', \(payload), tokens => '{aa}', variants => VARIANTS)",
                    "pushq.preview_campaign(QUEUE, 'k', payload => \(payload), variants => VARIANTS)",
                    "pushq.preview_message(QUEUE, \(payload), variants => VARIANTS)",
                ] {
                    let refusal = await refusal(call.replacing("VARIANTS", with: "'\(variants)'"), queue)
                    #expect(
                        refusal
                            == #"the variants have a \u escape that is not a character: write the character itself"#,
                        "\(call)")
                }
            }
        }
    }
}
