import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(2))) struct `Forgetting what is past retention` {
    private static func count(_ queue: QueueFixture) async throws -> Int {
        try await queue.number("select count(*) from pushq.message")
    }

    /// Does upkeep as if the day had come that lies so far ahead.
    private static func upkeep(_ queue: QueueFixture, inDays days: Int) async throws {
        let rows = try await queue.connection.execute(
            Statement("ahead", "select (pushq.today() + $1::int)::date"), [.int4(Int32(days))])
        let day = rows.first!.date(0)
        _ = try await queue.connection.maintainPartitions(today: day)
        try await queue.connection.forget(today: day)
    }

    @Test func `a message goes with the days that named it, and not while its day waits for a job`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let payload = #"{"aps":{"alert":"x"}}"#
            for token in ["ab", "cd"] {
                try await queue.run(
                    "select pushq.send('\(QueueFixture.name)', '\(payload)', tokens => array[repeat('\(token)', 32)])")
            }
            // They were sent yesterday.
            try await queue.run(
                """
                update pushq.body set day = day - 1;
                update pushq.job set body_day = body_day - 1;
                update pushq.message set created_at = created_at - interval '1 day'
                """)
            for left in [1, 0] {
                let job = try #require(try await queue.claim(1, lane: .normal).first)
                _ = try await queue.connection.retire([queue.settled(job)], owner: 1)
                try await Self.upkeep(queue, inDays: 7)
                #expect(try await Self.count(queue) == 2, "\(left) waits, and results were written today")
            }
            #expect(try await queue.number("select count(*) from pushq.body") == 0)
            try await Self.upkeep(queue, inDays: 8)
            #expect(try await Self.count(queue) == 0)
        }
    }

    @Test func `a campaign keeps its message until it has been fanned out`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let campaign = try await queue.startCampaign()
            try await queue.run("update pushq.message set created_at = created_at - interval '30 days'")
            try await Self.upkeep(queue, inDays: 0)
            #expect(try await Self.count(queue) == 1)

            try await queue.fanOut(campaign)
            let job = try #require(try await queue.claim().first)
            _ = try await queue.connection.retire([queue.settled(job)], owner: 1)
            try await Self.upkeep(queue, inDays: 8)
            #expect(try await Self.count(queue) == 0)
        }
    }

    @Test func `pages past messages that are still needed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run(
                """
                insert into pushq.message (queue_id, root_id, payload, push_type)
                select queue_id, 0, payload, push_type from pushq.message, generate_series(1, 2500)
                """)
            try await Self.upkeep(queue, inDays: 9)
            #expect(try await Self.count(queue) == 1)
        }
    }

    @Test func `a send that was committed while its app was removed holds no day of history`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let producer = try await database.connect()
            let payload = #"{"aps":{"alert":"x"}}"#
            try await producer.runScript(
                """
                begin;
                select pushq.send('\(QueueFixture.name)', '\(payload)', array['ab']);
                select pushq.start_campaign('\(QueueFixture.name)', 'k', '\(payload)')
                """)
            _ = try await queue.connection.removeApp("com.acme", of: "acme")
            try await producer.runScript("commit")
            #expect(try await queue.number("select count(*) from pushq.job") == 1)

            try await Self.upkeep(queue, inDays: 0)
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
            #expect(try await queue.number("select count(*) from pushq.fan_out") == 0)
        }
    }
}
