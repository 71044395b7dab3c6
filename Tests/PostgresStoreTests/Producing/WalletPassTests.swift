import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `The update of a Wallet pass` {
    private static func send(_ payload: String, pushType: String = "alert", in queue: QueueFixture) async throws {
        try await queue.run(
            """
            select pushq.send('acme/' || (select bundle_id from pushq.app) || '/sandbox', '\(payload)', tokens => array[repeat('ab', 32)],
                              push_type => '\(pushType)')
            """)
    }

    @Test func `may be empty in a queue for passes, and in no other`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for payload in ["{}", #"{"aps":{}}"#] {
                await #expect(throws: PostgresError.self) { try await Self.send(payload, in: queue) }
            }
            try await queue.run("update pushq.app set bundle_id = 'pass.com.acme.card'")
            for payload in ["{}", #"{"aps":{}}"#] { try await Self.send(payload, in: queue) }
            #expect(try await queue.number("select count(*) from pushq.job") == 2)
            #expect(try await queue.number("select count(*) from pushq.message where payload::text = '{}'") == 1)

            let error = await #expect(throws: PostgresError.self) {
                try await Self.send("{}", pushType: "background", in: queue)
            }
            #expect(error?.description.contains("aps is missing, which push type background requires") == true)
        }
    }

    @Test func `is started as a campaign, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run("update pushq.app set bundle_id = 'pass.com.acme.card'")
            try await queue.run(
                "select pushq.start_campaign('acme/pass.com.acme.card/sandbox', 'k', '{}')")
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
        }
    }
}
