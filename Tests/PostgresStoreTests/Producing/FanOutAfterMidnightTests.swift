import PostgresStore
import TestSupport
import Testing

/// After midnight, the first step of a campaign copies its message to the new day. So does a producer who retries
/// failed recipients, in a transaction that may stay open for long.
@Suite(.timeLimit(.minutes(10))) struct `A campaign's fan-out after midnight` {
    /// Starts `count` campaigns and dates them yesterday.
    private func startYesterday(_ count: Int, on queue: QueueFixture) async throws {
        for number in 0..<count { _ = try await queue.startCampaign(key: "old \(number)") }
        try await queue.run(
            """
            do $$
            begin
              while pushq.make_partition(pushq.today() - 1, 0) is not null loop end loop;
            end $$;
            update pushq.message set day = day - 1;
            update pushq.fan_out set message_day = message_day - 1
            """)
    }

    /// Opens a transaction that copies the messages of the oldest `count` campaigns, and leaves it open.
    private func bring(_ count: Int, on queue: QueueFixture, _ database: TestDatabase) async throws
        -> PostgresConnection
    {
        let session = try await database.connect()
        try await session.runScript(
            """
            begin;
            select pushq.bring_message(f.queue_id, f.message_id, f.message_day)
            from (select * from pushq.fan_out where queue_id = \(queue.id) order by campaign_id limit \(count)) f
            """)
        return session
    }

    /// Returns the number of jobs that two steps create. The second step finds that there are no more devices, and
    /// creates the last job.
    private func steps(_ queue: QueueFixture) async throws -> Int? {
        var made: Int?
        for _ in 1...2 {
            guard let jobs = try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 50_000)
            else { return made }
            made = (made ?? 0) + jobs
        }
        return made
    }

    @Test func `waits for no open transaction, also where it holds the messages of the first five`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await startYesterday(6, on: queue)
            let session = try await bring(5, on: queue, database)
            #expect(try await steps(queue) == 1)
            #expect(try await queue.texts("select key from pushq.campaign_progress where total > 0") == ["old 5"])
            #expect(try await steps(queue) == nil)
            try await session.runScript("rollback")
            for _ in 0..<5 { #expect(try await steps(queue) == 1) }
        }
    }

    @Test func `goes on with those of today where it holds the messages of very many`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await startYesterday(60, on: queue)
            _ = try await queue.startCampaign(key: "new")
            let session = try await bring(60, on: queue, database)
            #expect(try await steps(queue) == 1)
            #expect(try await queue.texts("select key from pushq.campaign_progress where total > 0") == ["new"])
            try await session.runScript("rollback")
        }
    }
}
