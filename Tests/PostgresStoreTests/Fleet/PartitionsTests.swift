import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(2))) struct `Keeping history by day` {
    /// The day that is `days` after the database's today.
    private func day(_ days: Int, in queue: QueueFixture) async throws -> CalendarDay {
        let rows = try await queue.connection.execute(
            Statement("day", "select (pushq.today() + $1::int)::date"), [.int4(Int32(days))])
        return rows.first!.date(0)
    }

    private func days(of parent: String, in queue: QueueFixture) async throws -> Int {
        try await queue.number(
            "select count(*) from pg_inherits where inhparent = 'pushq.\(parent)'::regclass")
    }

    @Test func `makes the days ahead, and makes none twice`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            #expect(try await days(of: "body", in: queue) == 6)
            #expect(try await queue.connection.maintainPartitions().isEmpty)
            _ = try await queue.connection.maintainPartitions(today: try await day(1, in: queue))
            #expect(try await days(of: "body", in: queue) == 7)
            #expect(try await days(of: "result", in: queue) == 7)
        }
    }

    @Test func `crosses midnight: what is past retention goes, but not what a job still waits for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            // The job was made yesterday, and the day after tomorrow has come.
            try await queue.run("update pushq.body set day = day - 1; update pushq.job set body_day = body_day - 1")
            var retention = Retention()
            retention.days = 2
            let later = try await day(2, in: queue)

            _ = try await queue.connection.maintainPartitions(retention, today: later)
            #expect(try await queue.number("select count(*) from pushq.body") == 1, "its job has not been sent")
            #expect(try await days(of: "body", in: queue) == 8)
            #expect(try await days(of: "result", in: queue) == 7)

            let job = try #require(try await queue.claim().first)
            _ = try await queue.connection.retire([queue.settled(job)], owner: 1)
            _ = try await queue.connection.maintainPartitions(retention, today: later)
            #expect(try await queue.number("select count(*) from pushq.body") == 0)
            #expect(try await days(of: "body", in: queue) == 7)
        }
    }

    @Test func `waits for nobody: a reader that sleeps in its transaction stops no enqueue`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let reader = try await database.connect()
            try await reader.runScript("begin; select count(*) from pushq.body")
            let later = try await day(1, in: queue)
            _ = try await queue.connection.maintainPartitions(today: later)
            #expect(try await days(of: "body", in: queue) == 7)
            try await queue.fanOut(try await queue.startCampaign())
            #expect(try await queue.number("select count(*) from pushq.body") == 1)
        }
    }
}
