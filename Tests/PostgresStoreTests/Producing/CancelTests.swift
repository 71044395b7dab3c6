import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Cancelling a send` {
    private static let name = QueueFixture.name

    /// Sends to `devices` tokens in jobs of two recipients.
    private func send(_ devices: Int, in queue: QueueFixture, options: String = "") async throws -> Int64 {
        try await queue.run(
            "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 1, 1 from pushq.queue where id = \(queue.id) on conflict do nothing"
        )
        let tokens = (0..<devices).map { "'00\(10 + $0)'" }.joined(separator: ",")
        let sql = #"pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', array[\#(tokens)]\#(options))"#
        return Int64(try await queue.number("select \(sql)"))
    }

    private func stopped(_ root: Int64, in queue: QueueFixture) async throws -> [Int] {
        let cancelled = try await queue.connection.cancelSend(root, inQueue: Self.name)
        return [cancelled.stopped, cancelled.held]
    }

    @Test func `stops what waits at once, though it is not due yet, and again without harm`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(5, in: queue, options: ", run_at => now() + interval '1 day'")
            #expect(try await stopped(root, in: queue) == [5, 0])
            #expect(try await stopped(root, in: queue) == [5, 0])
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.count == 3)
            #expect(jobs.filter(\.isCancelled).count == 3)
            #expect(try await queue.connection.progress(ofRoot: root, inQueue: Self.name)?.isCancelled == true)
        }
    }

    @Test func `tells the holder of a job, and whoever gets what is sent again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            #expect(try await stopped(root, in: queue) == [0, 2])
            let kept = try await queue.worker.renew([job.key], workerID: 1, lease: .seconds(15))
            #expect(kept.cancelled == [job.key])
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .retried(.otherTransient)], again: [again])], workerID: 1)
            let retry = try #require(try await queue.claim(lane: .normal).first)
            #expect(retry.rootID == root)
            #expect(retry.isCancelled)
        }
    }

    @Test func `notes in the audit that it stopped recipients to which a send was lost, though none is sure`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            try await queue.run("update pushq.job set losses = 1")
            let entries = "select count(*) from pushq.audit where action like '%cancel%'"
            #expect(try await stopped(root, in: queue) == [0, 0])
            #expect(try await queue.number(entries) == 1)
            #expect(try await stopped(root, in: queue) == [0, 0])
            #expect(try await queue.number(entries) == 1)
        }
    }

    /// After the loss of a worker, nobody knows which of these it has sent to, if any.
    @Test(arguments: ["cancel(queue, root)", "cancel_job(queue, job)", "cancel_jobs(queue, jobs)"])
    func `warns of those who may have got the push, and claims of nobody that they have`(cancel: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            try await queue.run("update pushq.job set losses = 1")
            let call = cancel.replacing("queue", with: "'\(Self.name)'").replacing("root", with: "\(root)")
                .replacing(" job)", with: " (select id from pushq.job))")
                .replacing(" jobs)", with: " array(select id from pushq.job))")
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            try await queue.run("select pushq.\(call)")
            #expect(warnings.count == 1 && warnings[0].contains("2 recipients may have got the push"), "\(warnings)")
        }
    }

    @Test func `counts what an earlier holder has not sent`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            let progress = LeaseProgress(key: job.key, watermark: 1, outcomes: [Outcome.delivered.rawValue, 0])
            _ = try await queue.worker.yield([YieldedLease(progress: progress)], workerID: 1)
            #expect(try await stopped(root, in: queue) == [1, 0])
        }
    }

    @Test func `does not count what was sent without an answer`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            let again = zip(0..., job.deviceIDs).map {
                ContinuingRecipient(ordinal: $0, deviceID: $1, delay: .zero, attempts: 0, losses: 1)
            }
            let lost = [0: Outcome.retried(.noAnswer), 1: .retried(.noAnswer)]
            _ = try await queue.worker.endJobs([queue.settled(job, other: lost, again: again)], workerID: 1)
            #expect(try await stopped(root, in: queue) == [0, 0])
        }
    }

    @Test func `of one job stops what workers have of it to send again, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await send(4, in: queue)
            let jobs = try await queue.claim(lane: .normal)
            let cancelled = jobs[0].key.jobID
            #expect(try await queue.connection.cancelJob(cancelled, inQueue: Self.name).held == 2)
            _ = try await queue.worker.endJobs(
                jobs.map { job in
                    let again = ContinuingRecipient(
                        ordinal: 1, deviceID: job.deviceIDs[1], delay: .zero, attempts: 1, losses: 0)
                    return queue.settled(job, other: [1: .retried(.otherTransient)], again: [again])
                }, workerID: 1)
            let retries = try await queue.claim(lane: .normal)
            #expect(retries.filter(\.isCancelled).map(\.deviceIDs) == [[jobs[0].deviceIDs[1]]])
            #expect(retries.filter { !$0.isCancelled }.map(\.deviceIDs) == [[jobs[1].deviceIDs[1]]])
        }
    }

    /// What went on in another job before the cancellation was committed used to be sent.
    @Test(arguments: ["cancel_job('QUEUE', JOB)", "cancel_jobs('QUEUE', '{JOB}')"])
    func `of one job holds for what goes on while it is not committed`(cancel: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await send(2, in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            let again = ContinuingRecipient(
                ordinal: 1, deviceID: job.deviceIDs[1], delay: .zero, attempts: 1, losses: 0)
            let ended = queue.settled(job, other: [1: .retried(.otherTransient)], again: [again])
            let producer = try await database.connect()
            let call = cancel.replacing("QUEUE", with: "\(Self.name)").replacing("JOB", with: "\(job.key.jobID)")
            try await producer.runScript("begin; select pushq.\(call)")
            #expect(try await queue.worker.endJobs([ended], workerID: 1).keys.isEmpty)
            try await producer.runScript("commit")
            #expect(try await queue.worker.endJobs([ended], workerID: 1).keys == [job.key])
            #expect(try await queue.claim(lane: .normal).allSatisfy(\.isCancelled))
        }
    }

    /// The transaction still sees the job, and so it used to mark the send as cancelled.
    @Test(arguments: ["repeatable read", "serializable"])
    func `is refused in a transaction that cannot see whether the send was delivered`(level: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            let producer = try await database.connect()
            try await producer.runScript("begin isolation level \(level); select count(*) from pushq.job")
            #expect(try await queue.worker.endJobs([queue.settled(job)], workerID: 1).keys == [job.key])
            let error = await #expect(throws: PostgresError.self) {
                try await producer.runScript("select pushq.cancel('\(Self.name)', \(root))")
            }
            let problem = "a send cannot be cancelled in a transaction with isolation level \(level)"
            #expect(error?.description.contains(problem) == true)
            try await producer.runScript("commit")
            #expect(try await queue.number("select count(*) from pushq.cancelled") == 0)
            #expect(try await queue.texts("select state from pushq.status('\(Self.name)', \(root))") == ["finished"])
        }
    }

    @Test func `leaves other sends alone, and one job can be cancelled by itself`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (first, second) = (try await send(2, in: queue), try await send(4, in: queue))
            _ = try await stopped(first, in: queue)
            let job = Int64(try await queue.number("select max(id) from pushq.job where root_id = \(second)"))
            #expect(try await queue.connection.cancelJob(job, inQueue: Self.name).stopped == 2)
            let jobs = try await queue.claim(lane: .normal)
            #expect(Set(jobs.filter(\.isCancelled).map(\.key.jobID)).isSuperset(of: [job]))
            #expect(jobs.filter(\.isCancelled).map(\.rootID).sorted() == [first, second])
            #expect(jobs.filter { !$0.isCancelled }.map(\.rootID) == [second])
        }
    }

    @Test func `is refused for what is no send, and stops nothing where nobody was reached`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let campaign = try await queue.startCampaign()
            for (id, words) in [(campaign, "is a campaign"), (4711, "there is no send 4711")] {
                await #expect {
                    try await queue.connection.cancelSend(id, inQueue: Self.name)
                } throws: { error in
                    "\(error)".contains(words)
                }
            }
            await #expect {
                try await queue.run("select pushq.cancel('\(Self.name)', null)")
            } throws: { error in
                "\(error)".contains("there is no send null in queue")
            }
            let empty = try await queue.number(
                #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', user_key => 'nobody')"#)
            #expect(try await stopped(Int64(empty), in: queue) == [0, 0])
            await #expect(throws: PostgresError.self) {
                try await queue.connection.cancelJob(4711, inQueue: Self.name)
            }
        }
    }

    @Test(arguments: [false, true])
    func `that has ended changes nothing: what has failed can be sent again, and a repetition is not warned`(
        isOfJob: Bool
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(2, in: queue, options: ", key => 'k'")
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .failed(.otherTransient)])], workerID: 1)
            let cancelled =
                isOfJob
                ? try await queue.connection.cancelJob(job.key.jobID, inQueue: Self.name)
                : try await queue.connection.cancelSend(root, inQueue: Self.name)
            #expect(cancelled.stopped == 0 && cancelled.held == 0)
            #expect(try await queue.number("select count(*) from pushq.cancelled") == 0)
            #expect(try await queue.texts("select state from pushq.status('\(Self.name)', \(root))") == ["finished"])
            #expect(try await queue.connection.retryFailed(ofJob: job.key.jobID, inQueue: Self.name) == 1)
            #expect(try await queue.claim(lane: .normal).map(\.isCancelled) == [false])
            #expect(try await stopped(root, in: queue) == [0, 1], "it can be cancelled again")
        }
    }

    @Test func `or a campaign that has ended changes nothing, and leaves its failed recipients to be sent to again`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let job = try #require(try await queue.claim().first)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .failed(.otherTransient)])], workerID: 1)
            let cancel = "select pushq.cancel_campaign('\(Self.name)', 'k')::int"
            #expect(try await queue.number(cancel) == 0)
            let summary = try await queue.connection.campaign("k", ofQueue: Self.name)
            #expect(summary?.isCancelled == false && summary?.isFinished == true)
            #expect(try await queue.startCampaign() == campaign, "a repetition is no error")
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: Self.name) == 1)
            #expect(try await queue.number(cancel) == 1)
            #expect(try await queue.claim().map(\.isCancelled) == [true])
        }
    }

    @Test func `is for good: its failed recipients are not sent to again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(4, in: queue)
            let job = try #require(try await queue.claim(1, lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .failed(.otherTransient)])], workerID: 1)
            #expect(try await stopped(root, in: queue) == [2, 0])
            await #expect {
                try await queue.connection.retryFailed(ofJob: job.key.jobID, inQueue: Self.name)
            } throws: { error in
                "\(error)".contains("was cancelled")
            }
        }
    }
}
