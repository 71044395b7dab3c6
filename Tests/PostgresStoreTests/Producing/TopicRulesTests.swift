import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Topics that a certificate names` {
    private static func problem(_ type: PushType, in queue: QueueFixture) async throws -> String? {
        let rows = try await queue.connection.execute(
            Statement("topic problem", "select pushq.topic_problem($1, $2)"), [.int4(queue.id), .text(type.rawValue)])
        return try rows.one().optionalText("topic_problem")
    }

    private static func useCertificate(naming topics: [String], in queue: QueueFixture) async throws {
        let list = topics.map { "'\($0)'" }.joined(separator: ", ")
        try await queue.run(
            """
            insert into pushq.credential (tenant_id, name, kind, topics, environments, fingerprint, sealed)
            select id, 'main', 'certificate', array[\(list)]::text[], '{sandbox}', '', '' from pushq.tenant
            on conflict on constraint credential_name_once do update set topics = excluded.topics;
            update pushq.queue q set credential_id = c.id from pushq.credential c where c.tenant_id = q.tenant_id
            """)
    }

    @Test(arguments: PushType.allCases) func `are what a type with a topic of its own needs`(type: PushType)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            #expect(try await Self.problem(type, in: queue) == nil, "no credential says anything yet")

            try await Self.useCertificate(naming: ["com.acme"], in: queue)
            let problem = try await Self.problem(type, in: queue)
            #expect((problem == nil) == type.topicSuffix.isEmpty)
            let topic = "com.acme\(type.topicSuffix)"
            #expect(problem?.contains("the topic \(topic), which the certificate main does not name") ?? true)

            try await Self.useCertificate(naming: ["com.acme", topic], in: queue)
            #expect(try await Self.problem(type, in: queue) == nil)
        }
    }

    @Test func `refuse a send before it is queued`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await Self.useCertificate(naming: ["com.acme"], in: queue)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run(
                    """
                    select pushq.send('\(QueueFixture.name)', '{"aps":{}}', tokens => array[repeat('ab', 32)], push_type => 'voip')
                    """)
            }
            #expect(error?.description.contains("goes to the topic com.acme.voip") == true)
        }
    }
}
