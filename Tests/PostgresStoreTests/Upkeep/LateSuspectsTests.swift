import PostgresStore
import TestSupport
import Testing

/// Suspects that an earlier judgement did not see, or could not decide on.
extension `Judging suspects` {
    /// A transaction that ends jobs may be committed after a later one, which was judged by then.
    @Test
    func `a block of bad tokens that is committed late is judged, not taken for what the last judgement has left`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            try await end(1, delivered: 990, bad: 10, ago: "5 seconds", in: queue)
            #expect(try await judgeAll(in: queue) == SuspectVerdict(deactivated: 10))
            try await end(1, delivered: 0, bad: 500, ago: "6 seconds", in: queue)
            let verdict = try await judgeAll(in: queue)
            #expect(verdict.paused.count == 1 && verdict.deactivated == 0)
            try await end(1, delivered: 0, bad: 50, ago: "7 seconds", in: queue)
            #expect(try await judgeAll(in: queue) == SuspectVerdict(), "the queue is to blame for these, too")
            #expect(try await count("kept", in: queue) == 550)
        }
    }

    @Test
    func `after the database's clock was set back, what was judged or answered before by the clock counts for nothing`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            try await end(1, delivered: 1000, bad: 0, ago: "-1 hour", in: queue)
            try await queue.run(
                """
                insert into pushq.judgement (queue_id, judged_to, spared)
                values (\(queue.id), now() + interval '1 hour', false)
                """)
            for _ in 0..<60 {
                try await end(1, delivered: 0, bad: 5, in: queue)
                #expect(try await queue.worker.judgeSuspects().deactivated == 0)
            }
            #expect(try await queue.number("select count(*) from pushq.queue where paused_at is not null") == 1)

            try await queue.run(
                """
                delete from pushq.judgement;
                update pushq.queue set paused_at = null, paused_reason = null, resumed_at = now() + interval '1 hour'
                """)
            try await end(300, delivered: 0, bad: 1, in: queue)
            #expect(try await queue.worker.judgeSuspects().paused.count == 1)
        }
    }

    @Test func `ends while many devices are being written, however much was answered since`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            try await end(1, delivered: 990, bad: 15, ago: "9 seconds", in: queue)
            let producer = try await database.connect()
            try await producer.runScript("begin; select from pushq.device for update")
            _ = try await queue.worker.judgeSuspects()
            try await end(8, delivered: 500, bad: 0, ago: "8 seconds", every: "1 second", in: queue)
            var steps = 0
            while try await queue.worker.judgeSuspects().hasMore, steps < 20 { steps += 1 }
            #expect(steps < 5)
            try await producer.runScript("rollback")
            #expect(try await judgeAll(in: queue).deactivated == 15)
        }
    }
}
