import PostgresStore
import TestSupport
import Testing
import Transport

@testable import QueueCore

@Suite(.timeLimit(.minutes(10))) struct `The message of a campaign` {
    private static let start = Statement(
        "start", "select pushq.start_campaign('\(QueueFixture.name)', $1, $2::text::json, push_type => $3)")

    @Test func `is refused or accepted by Swift and by SQL in the same words, and then nothing is started`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for (number, example) in CampaignMessageCase.all.enumerated() {
                let which = Comment("case \(number): \(example.message.payload.prefix(160))")
                let ours = CampaignMessage.check(example.message, now: 0).first { $0.severity == .error }?.text
                #expect(ours == example.refusal, which)
                var theirs: String?
                do {
                    _ = try await queue.connection.execute(
                        Self.start,
                        [
                            .text("\(number)"), .text(example.message.payload),
                            .text(example.message.pushType.rawValue),
                        ])
                } catch {
                    guard case .raised(let message, _)? = error as? PostgresError else { throw error }
                    theirs = message
                }
                #expect(theirs == example.refusal, which)
                let started = try await queue.number("select count(*) from pushq.campaign where key = '\(number)'")
                #expect(started == (example.refusal == nil ? 1 : 0), which)
            }
        }
    }

    /// The position of a finding, counted as editors count.
    @Test(arguments: [
        (#"{"aps":{"alert":"Hi {{name"}}"#, 20),
        (#"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"{{}}"}}}}"#, 68),
        (#"{"aps":{"alert":"{{a|bc}} {{d}}","badge":-1}}"#, 41),
        (#"{"default":{"aps":{"alert":"{{a|bc}}"}},"languages":{"de":{"aps":{"alert":"{{a}}","badge":-1}}}}"#, 90),
    ])
    func `is refused with the place of what is wrong`(payload: String, offset: Int) {
        let finding = CampaignMessage.check(Message(payload: payload), now: 0).first { $0.severity == .error }
        #expect(finding?.offset == offset)
    }

    @Test func `of one payload without placeholders is stored as any other`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            #expect(job.personal == nil)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.message where num_nonnulls(languages, translations, placeholders) = 0")
                    == 1)
        }
    }

    @Test(arguments: ["preview_message(QUEUE, $1)", "start_campaign(QUEUE, 'k', $1)"])
    func `of many placeholders is refused by its size before it is read, which would take minutes`(call: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let text = String(repeating: "{{name}} ", count: 40_000)
            let function = call.replacing("QUEUE", with: "'\(QueueFixture.name)'").replacing(
                "$1", with: "'{\"aps\":{\"alert\":\"\(text)\"}}'")
            await #expect {
                try await queue.run("set statement_timeout = '20s'; select pushq.\(function)")
            } throws: { error in
                "\(error)".contains("with its placeholders: use at most 16384")
            }
        }
    }

    @Test func `under a key is the same however its JSON is written, and another one in another language`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func start(_ message: String) async throws -> Int64 {
                try await queue.connection.execute(Self.start, [.text("k"), .text(message), .text("alert")]).one()
                    .int8("start_campaign")
            }
            let message = #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"y"}}}}"#
            let first = try await start(message)
            #expect(try await start(message.replacing(":", with: " : ")) == first)
            await #expect(throws: PostgresError.self) { try await start(message.replacing("\"de\"", with: "\"fr\"")) }
        }
    }
}
