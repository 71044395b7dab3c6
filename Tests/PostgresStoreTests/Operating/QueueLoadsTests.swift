import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `The load of queues` {
    private func load(_ queue: QueueFixture) async throws -> QueueLoad {
        try #require(try await queue.connection.queueLoads(of: nil).queues.first)
    }

    @Test func `is what is due and not claimed, over all lanes, with the age of the first`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 30)
            #expect(try await load(queue).state == "idle")
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[lpad('1', 16, '0')]);
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[lpad('2', 16, '0')],
                                  run_at => now() + interval '1 hour')
                """)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run("update pushq.job set run_at = now() - interval '90 seconds' where lane = 2")
            let waiting = try await load(queue)
            #expect((waiting.waitingJobs, waiting.waitingRecipients) == (2, 31), "what is for later does not wait yet")
            #expect(!waiting.isPartial)
            let oldest = try #require(waiting.oldest)
            #expect(oldest >= .seconds(90) && oldest < .seconds(200))
            #expect(waiting.state == "no credential")
            _ = try await queue.claim()
            #expect(try await load(queue).waitingRecipients == 1)
            try await queue.connection.pauseQueue(QueueFixture.name, reason: "test")
            let paused = try await load(queue)
            #expect((paused.state, paused.pausedReason) == ("paused", "test"))
        }
    }

    /// Such a queue once looked idle to an operator, although no worker was there to begin.
    @Test func `has a campaign in it that no worker has begun`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 30)
            let campaign = try await queue.startCampaign()
            try await queue.run("update pushq.fan_out set start_at = now() - interval '90 seconds'")
            var waiting = try await load(queue)
            #expect((waiting.unbegunCampaigns, waiting.waitingJobs, waiting.isPartial) == (1, 0, true))
            #expect(try #require(waiting.oldest) >= .seconds(90))
            #expect(waiting.state == "no credential")
            waiting.hasCredential = true
            #expect(waiting.state == "campaign waits")
            // A campaign that is paused or scheduled for later is not due.
            try await queue.run("update pushq.fan_out set start_at = now() + interval '1 hour'")
            #expect(try await load(queue).state == "idle")
            try await queue.run("update pushq.fan_out set start_at = now() - interval '90 seconds', paused = true")
            #expect(try await load(queue).state == "idle")
            try await queue.run("update pushq.fan_out set paused = false")
            try await queue.fanOut(campaign)
            waiting = try await load(queue)
            #expect((waiting.unbegunCampaigns, waiting.waitingRecipients) == (0, 30))
            #expect(try #require(waiting.oldest) < .seconds(90), "its jobs have been due only since then")
        }
    }

    @Test func `is what workers have sent in the last seconds, and what APNs answered, over all of them`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var throughput = Throughput(queueID: queue.id)
            (throughput.sent, throughput.inFlight, throughput.accepted, throughput.unanswered) = (100, 7, 80, 1)
            throughput.refused = [ReasonCount(.named("BadDeviceToken"), 2), ReasonCount(.unregistered, 5)]
            var times = [Int](repeating: 0, count: AnswerTimes.bounds.count + 1)
            (times[3], times[6]) = (80, 7)
            throughput.answerTimes = AnswerTimes(counts: times)
            var report = WorkerReport(name: "w")
            report.interval = .seconds(5)
            report.throughput = [throughput]
            report.unreachable = [queue.id]
            try await queue.worker.showWorker(1, report)
            report.interval = .seconds(2)
            report.unreachable = []
            report.inOutage = [.init(queueID: queue.id, reason: "500 InternalServerError")]
            try await queue.worker.showWorker(2, report)
            let load = try await load(queue)
            #expect((load.workers, load.inFlight, load.accepted, load.unanswered) == (2, 14, 160, 2))
            #expect(abs(load.sentPerSecond - 70) < 0.001, "20 a second and 50 a second")
            #expect(load.refused == [ReasonCount(.unregistered, 10), ReasonCount(.named("BadDeviceToken"), 4)])
            #expect(load.answerTimes.bound(of: 0.5) == 10 && load.answerTimes.bound(of: 0.99) == 100)
            #expect((load.unreachable, load.inOutage, load.state) == (1, 1, "sending"), "others take the pushes")
            report.throughput = [Throughput(queueID: queue.id)]
            for id in [1, 2] as [Int64] { try await queue.worker.showWorker(id, report) }
            #expect(try await self.load(queue).state == "outage")
            report.inOutage = []
            for (id, state) in [(1, "outage"), (2, "idle")] as [(Int64, String)] {
                try await queue.worker.showWorker(id, report)
                #expect(try await self.load(queue).state == state)
            }
            report.throughput = [throughput]
            try await queue.worker.showWorker(2, report)

            // The next heartbeat replaces the last one, and a worker that stops removes its own row.
            (report.throughput, report.inOutage) = ([], [])
            try await queue.worker.showWorker(1, report)
            #expect(try await self.load(queue).inFlight == 7)
            try await queue.worker.removeWorker(2)
            #expect(try await self.load(queue).state == "idle")
            #expect(try await queue.number("select count(*) from pushq.throughput") == 0)
        }
    }

    @Test func `does not count what a worker said that was lost since`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var report = WorkerReport(name: "w")
            var throughput = Throughput(queueID: queue.id)
            throughput.sent = 5
            report.throughput = [throughput]
            try await queue.worker.showWorker(1, report)
            #expect(try await load(queue).workers == 1)
            try await queue.run(
                """
                update pushq.throughput set shown_at = now() - interval '20 seconds';
                update pushq.worker set seen_at = now() - interval '2 minutes'
                """)
            #expect(try await load(queue).workers == 0)
            // Another worker removes the lost worker's rows.
            try await queue.worker.showWorker(2, WorkerReport(name: "v"))
            #expect(try await queue.number("select count(*) from pushq.throughput") == 0)
        }
    }

    /// There are 2000 queues, 1500 of them with jobs. A statement that reads all jobs would read 60,000.
    @Test func `is bounded, and shows the queues that matter most`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.app (tenant_id, bundle_id)
                select tenant_id, 'com.acme.a' || i from pushq.queue, generate_series(1, 2000) i;
                insert into pushq.queue (tenant_id, app_id, environment)
                select tenant_id, id, 'sandbox' from pushq.app where bundle_id like 'com.acme.a%';
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select q.id, nextval('pushq.id'), 1, now() - q.n * interval '1 second', now() + interval '1 day', 0, 0,
                       pushq.today(), 1
                from (select id, row_number() over (order by id) as n from pushq.queue order by id limit 1500) q,
                     generate_series(1, 40) i;
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(queue.id), nextval('pushq.id'), 2, now() - interval '1 day', now() + interval '1 day', 0, 0,
                       pushq.today(), 500
                from generate_series(1, 60000) i;
                analyze
                """)
            let all = try await queue.connection.queueLoads(of: nil, limit: 20)
            #expect(all.found == 2001 && all.queues.count == 20 && all.hasMore)
            #expect(all.queues[0].queue == QueueFixture.name, "it waits longest")
            #expect(all.queues[0].isPartial && all.queues[0].waitingRecipients >= 500 * 50)
            #expect(all.queues[1].queue.app == "com.acme.a1499")
            #expect(all.queues[1].waitingRecipients == 40 && !all.queues[1].isPartial)
            let some = try await queue.connection.queueLoads(of: "acme", matching: "ACME.A19", limit: 200)
            #expect(some.found == 111, "19, 190 to 199 and 1900 to 1999")
            #expect(some.queues.allSatisfy { $0.queue.app.hasPrefix("com.acme.a19") })
            await #expect(throws: PostgresError.self) { try await queue.connection.queueLoads(of: "nobody") }

            try await queue.run("select pg_stat_force_next_flush()")
            let read =
                "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables where relname = 'job'"
            let before = try await queue.number(read)
            for _ in 0..<10 { _ = try await queue.connection.queueLoads(of: nil) }
            try await queue.run("select pg_stat_force_next_flush()")
            let rows = try await queue.number("\(read) -- afterwards") - before
            #expect(rows > 10 * 1000 && rows < 10 * 20_000, "\(rows) rows of 120,000")
        }
    }
}
