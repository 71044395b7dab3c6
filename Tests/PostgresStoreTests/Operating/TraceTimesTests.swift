import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The trace of a time` {
    private static let anHourAgo = "since => now() - interval '61 minutes', until => now() - interval '59 minutes'"

    /// The texts of the trace of device 1.
    private func trace(_ options: String, _ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            "select what from pushq.trace('\(QueueFixture.name)', encode(int8send(1), 'hex'), \(options))")
    }

    /// Sends to device 1.
    private func send(_ queue: QueueFixture) async throws {
        try await queue.run(
            #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(1), 'hex')])"#)
    }

    /// Sends to device 1, and ends the job an hour ago, with `outcome` for its recipient.
    private func sendAnHourAgo(_ outcome: Outcome, _ queue: QueueFixture) async throws {
        try await send(queue)
        let job = try #require(try await queue.claim(lane: .normal).first)
        _ = try await queue.worker.endJobs([queue.settled(job, other: [0: outcome])], workerID: 1)
        try await queue.run(
            "update pushq.result set ended_at = now() - interval '1 hour' where job_id = \(job.key.jobID)")
    }

    @Test func `finds a push among more newer ones than a trace looks at, and says where it stopped`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await sendAnHourAgo(.delivered, queue)
            // The newest jobs, for another device.
            try await queue.run(
                """
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today(), d.queue_id, 1000000 + i, 1000000 + i, d.id, d.id, array[d.id]
                from pushq.device d, generate_series(1, 60000) i
                where d.token = int8send(2);
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                          delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
                select day, queue_id, job_id, root_id, day, 1, 1, 1,
                       now() + (job_id - 1060000) * interval '1 millisecond', '\\x01', 1, 0, 0, 0, 0, 0, 0, 0
                from pushq.body where job_id > 1000000;
                analyze pushq.body; analyze pushq.result
                """)
            let untimed = try await trace("most => 10", queue)
            #expect(untimed.last?.hasPrefix("sends before this time were not all searched") == true, "\(untimed)")
            #expect(!untimed.contains("APNs accepted it"))

            let timed = try await trace(Self.anHourAgo, queue)
            #expect(timed.last == "APNs accepted it", "\(timed)")

            let long = try await trace("since => now() - interval '2 hours'", queue)
            #expect(long.contains("APNs accepted it"))
            #expect(
                long.last
                    == "only the first 50,000 jobs of that time were looked at, up to this moment: name a shorter time",
                "\(long)")
        }
    }

    @Test func `finds what got no answer, and what waits, and says that nothing ended`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let ended = "no push for it ended in this time"
            #expect(try await trace(Self.anHourAgo, queue).last == ended)
            try await sendAnHourAgo(.expired, queue)
            #expect(try await trace(Self.anHourAgo, queue).last == "not sent: its time to be sent had passed")
            #expect(try await trace("since => now() - interval '58 minutes'", queue).last == ended)
            #expect(try await trace("until => now() - interval '2 hours'", queue).last == ended)
            #expect(
                try await trace("since => '-infinity', until => 'infinity'", queue).last?.hasPrefix("not sent") == true)
            try await send(queue)
            let waiting = try await trace(Self.anHourAgo, queue)
            #expect(waiting.last?.hasPrefix("it waits: the queue has no credential") == true, "\(waiting)")
            #expect(waiting.contains("not sent: its time to be sent had passed"))
        }
    }

    @Test(arguments: [
        ("since => now(), until => now() - interval '1 minute'", "since is later than until"),
        ("since => now(), send => 1", "since and until do not go with a send or a campaign"),
    ])
    func `is refused in one line where it is no time`(options: String, problem: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            await #expect {
                _ = try await trace(options, queue)
            } throws: { error in
                "\(error)".contains(problem)
            }
        }
    }
}
