import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A job whose campaign is paused` {
    private static let pause = "select pushq.pause_campaign('\(QueueFixture.name)', 'k')"
    private static let resume = "select pushq.resume_campaign('\(QueueFixture.name)', 'k')"
    private static let due = "select count(*) from pushq.job where run_at <= now() + interval '2 s'"

    private func withLease(
        _ body: @escaping @Sendable (isolated LoopActor, TestDatabase, QueueFixture, ClaimedJob) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.fanOut(try await queue.startCampaign())
            try await body(actor, database, queue, try #require(try await queue.claim().first))
        }
    }

    private func progress(_ job: ClaimedJob) -> LeaseProgress {
        LeaseProgress(key: job.key, watermark: 1, outcomes: [1, 0, 0, 0, 0])
    }

    @Test func `is told of with the next flush, set aside when it comes back, and due when the campaign goes on`()
        async throws
    {
        try await withLease { _, _, queue, job in
            try await queue.run(Self.pause)
            let kept = try await queue.worker.flush([progress(job)], workerID: 1, lease: .seconds(15), number: 1)
            #expect(kept.paused == [job.key])
            try await queue.worker.yield([YieldedLease(progress: progress(job))], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.job where run_at = 'infinity'") == 1)
            let listed = try await queue.connection.jobs(ofQueue: nil, limit: 10)
            #expect(listed.map(\.runAt) == [nil], "no time that a program could read")
            try await queue.run(Self.resume)
            let again = try #require(try await queue.claim().first)
            #expect(!again.isPaused)
            #expect(again.outcomes == [1, 0, 0, 0, 0])
        }
    }

    /// The worker that holds the job has not heard of the pause, or has lost the job since.
    @Test(arguments: [false, true])
    func `may be sent until the time with which its campaign is resumed, though it was claimed before`(isRescued: Bool)
        async throws
    {
        try await withLease { _, _, queue, job in
            try await queue.run("update pushq.lease set send_by = now() + interval '10 seconds'")
            try await queue.run(Self.pause)
            try await queue.run(
                "select pushq.resume_campaign('\(QueueFixture.name)', 'k', send_by => now() + interval '1 hour')")
            if isRescued {
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .zero) == 1)
            } else {
                let kept = try await queue.worker.flush([progress(job)], workerID: 1, lease: .seconds(15), number: 1)
                #expect(kept.elsewhere == [job.key])
                try await queue.worker.yield([YieldedLease(progress: progress(job))], workerID: 1)
            }
            let again = try #require(try await queue.claim().first)
            #expect(again.sendWithin > .seconds(3000))
            let kept = try await queue.worker.renew([again.key], workerID: 1, lease: .seconds(15))
            #expect(kept.elsewhere.isEmpty == !isRescued, "one that was lost is claimed anew once more")
        }
    }

    /// A job of the campaign is given back, rescued, or retried for one of its recipients.
    @Test(arguments: ["yielded", "rescued", "retried"])
    func `may be sent no longer than until the time with which its campaign is resumed, though that is earlier`(
        fate: String
    ) async throws {
        try await withLease { _, _, queue, job in
            #expect(job.sendWithin > .seconds(3600))
            try await queue.run(
                """
                \(Self.pause);
                select pushq.resume_campaign('\(QueueFixture.name)', 'k', send_by => now() + interval '1 minute')
                """)
            let kept = try await queue.worker.flush([progress(job)], workerID: 1, lease: .seconds(15), number: 1)
            #expect(kept.elsewhere == [job.key])
            switch fate {
            case "yielded": try await queue.worker.yield([YieldedLease(progress: progress(job))], workerID: 1)
            case "rescued":
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .zero) == 1)
            default:
                let again = ContinuingRecipient(
                    ordinal: 2, deviceID: job.deviceIDs[2], delay: .zero, attempts: 1, losses: 0)
                let settled = queue.settled(job, other: [2: .retried(.otherTransient)], again: [again])
                #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            }
            let again = try #require(try await queue.claim().first)
            #expect(again.sendWithin <= .seconds(60))
        }
    }

    /// A job that is retried by hand has a time of its own. A job created earlier has the campaign's new time.
    @Test func `may be sent until its own time if it was made after the campaign was resumed with another`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 0.5, 1 from pushq.queue
                """
            )
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 2)
            let held = jobs[1]
            let settled = queue.settled(jobs[0], other: [0: .failed(.otherTransient)])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            try await queue.run(
                """
                \(Self.pause);
                select pushq.resume_campaign('\(QueueFixture.name)', 'k', send_by => now() + interval '3 days');
                select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k', now() + interval '1 minute')
                """)
            let byHand = try #require(try await queue.claim().first)
            #expect(byHand.sendWithin <= .seconds(60))
            let kept = try await queue.worker.renew([byHand.key, held.key], workerID: 1, lease: .seconds(15))
            #expect(kept.elsewhere == [held.key])
            // Each job keeps its end when it is retried again.
            for (job, isLong) in [(byHand, false), (held, true)] {
                let again = ContinuingRecipient(
                    ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)
                let settled = queue.settled(job, other: [0: .retried(.otherTransient)], again: [again])
                _ = try await queue.worker.endJobs([settled], workerID: 1)
                let next = try #require(try await queue.claim().first)
                #expect(isLong ? next.sendWithin > .seconds(100_000) : next.sendWithin <= .seconds(60))
            }
        }
    }

    /// The campaign's own time has passed, and only what was retried by hand is left, waiting or held.
    @Test(arguments: [false, true])
    func `may be sent until its own time if its campaign is resumed after the campaign's own`(isHeld: Bool) async throws
    {
        try await withLease { _, _, queue, job in
            let settled = queue.settled(job, other: [0: .failed(.otherTransient)])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            try await queue.run(
                """
                select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k', now() + interval '1 hour');
                update pushq.fan_out set send_by = now() - interval '1 minute'
                """)
            if isHeld { #expect(try await queue.claim().count == 1) }
            try await queue.run("\(Self.pause); \(Self.resume)")
            if isHeld {
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .zero) == 1)
            }
            let byHand = try #require(try await queue.claim().first)
            #expect(byHand.sendWithin > .seconds(3000), "\(byHand.sendWithin)")
        }
    }

    @Test func `is not waited for if the time of its campaign has passed and devices are in no job yet`() async throws {
        try await withLease { _, _, queue, job in
            let settled = queue.settled(job, other: [0: .failed(.otherTransient)])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            try await queue.run(
                """
                select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k', now() + interval '1 hour');
                update pushq.fan_out set send_by = now() - interval '1 minute', done = false, done_at = null;
                \(Self.pause)
                """)
            let error = await #expect(throws: PostgresError.self) { try await queue.run(Self.resume) }
            #expect(error?.description.contains("resume it with a new send_by") == true, "\(error?.description ?? "")")
        }
    }

    @Test(arguments: [false, true])
    func `is told of by its claim when it came to be after the others were set aside`(isRescued: Bool) async throws {
        try await withLease { _, _, queue, job in
            try await queue.run(Self.pause)
            if isRescued {
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .zero) == 1)
            } else {
                let again = ContinuingRecipient(
                    ordinal: 2, deviceID: job.deviceIDs[2], delay: .zero, attempts: 1, losses: 0)
                let settled = queue.settled(job, other: [2: .retried(.otherTransient)], again: [again])
                #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            }
            let back = try #require(try await queue.claim().first)
            #expect(back.isPaused)
        }
    }

    @Test func `waits for nobody who resumes the campaign in a long transaction, and is not left aside by it`()
        async throws
    {
        try await withLease { _, database, queue, job in
            try await queue.run(Self.pause)
            let operatorSession = try await database.connect()
            try await operatorSession.runScript("begin; \(Self.resume)")
            try await queue.worker.yield([YieldedLease(progress: progress(job))], workerID: 1)
            try await operatorSession.runScript("commit")
            #expect(try await queue.number(Self.due) == 1)
        }
    }

    @Test func `is not left aside where its failed recipients are tried again while it is resumed`() async throws {
        try await withLease { actor, database, queue, job in
            // The pause of a campaign is over when the campaign has ended.
            try await queue.run(Self.pause)
            let settled = queue.settled(job, other: [1: .failed(.otherTransient)])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            let producer = try await database.connect()
            try await producer.runScript("begin; select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')")
            let other = try await database.connect()
            let resuming = Task {
                _ = actor
                try await other.runScript(Self.resume)
            }
            try await database.waitUntilBlocked("it waits for the other")
            try await producer.runScript("commit")
            try await resuming.value
            #expect(try await queue.number(Self.due) == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A producer's transaction that stays open` {
    @Test(arguments: [
        "pushq.register_device('acme/com.acme/sandbox', '0000000000000001')",
        "pushq.pause_campaign('acme/com.acme/sandbox', 'k')", "pushq.cancel_campaign('acme/com.acme/sandbox', 'k')",
        "pushq.resume_campaign('acme/com.acme/sandbox', 'k')",
    ])
    func `keeps no worker from writing, giving back, rescuing or ending its jobs`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 0.5, 1 from pushq.queue"
            )
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 3)
            if call.contains("resume") {
                try await queue.run("select pushq.pause_campaign('\(QueueFixture.name)', 'k')")
            }
            let producer = try await database.connect()
            try await producer.runScript("begin; select \(call)")

            // None of these statements may wait, because the producer's transaction may stay open for long.
            let store = queue.connection
            let report = SettledJob.DeviceReport(
                deviceID: jobs[0].deviceIDs[0], reason: .unregistered, reportedAt: nil, sentAt: .now)
            let settled = queue.settled(jobs[0], other: [0: .rejected(.unregistered)], reports: [report])
            #expect(try await store.endJobs([settled], workerID: 1).keys.count == 1)
            let progress = jobs.map { LeaseProgress(key: $0.key, watermark: 1, outcomes: [0]) }
            #expect(try await store.flush(progress, workerID: 1, lease: .seconds(15), number: 1).keys.count == 2)
            try await store.yield([YieldedLease(progress: progress[1])], workerID: 1)
            try await queue.expireLeases()
            #expect(try await store.rescue(grace: .zero) == 1)
            #expect(try await queue.claim(workerID: 2).count == 2)
            try await producer.runScript("rollback")
        }
    }

    @Test func `keeps no job of its campaign from ending, though it holds all the counts`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 0.5, 1 from pushq.queue"
            )
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 2)
            _ = try await queue.worker.endJobs(
                [queue.settled(jobs[0], other: [0: .failed(.otherTransient)])], workerID: 1)
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin; select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k');
                select * from pushq.campaign_tally for update
                """)
            #expect(try await queue.worker.endJobs([queue.settled(jobs[1])], workerID: 1).keys.count == 1)
            try await producer.runScript("commit")
            let sums = "select sum(delivered) * 100 + sum(failed) * 10 + sum(retried) from pushq.campaign_tally"
            #expect(try await queue.number(sums) == 101)
            #expect(
                try await queue.number("select delivered * 100 + failed * 10 + retried from pushq.campaign_progress")
                    == 101)
            let limit = try await queue.connection.execute(Statement("limit", "show lock_timeout"))
            #expect(try limit.one().text("lock_timeout") == "0")
        }
    }

    @Test func `that has locked a lease keeps no other from being written, and the lease is told of as held`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            try await queue.run(
                "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 0.5, 1 from pushq.queue"
            )
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 4)
            let locked = jobs[0].key
            let other = try await database.connect()
            try await other.runScript("begin; delete from pushq.lease where job_id = \(locked.jobID)")

            let store = queue.connection
            let progress = jobs.map { LeaseProgress(key: $0.key, watermark: 1, outcomes: [0]) }
            let flushed = try await store.flush(progress, workerID: 1, lease: .seconds(15), number: 1)
            #expect(flushed.locked == [locked])
            #expect(flushed.keys == Set(jobs[1...].map(\.key)))
            let renewed = try await store.renew(jobs.map(\.key), workerID: 1, lease: .seconds(15))
            #expect(renewed.locked == [locked])
            let ended = try await store.endJobs(jobs[..<2].map { queue.settled($0) }, workerID: 1)
            #expect(ended.locked == [locked])
            #expect(ended.keys == [jobs[1].key])
            let back = try await store.yield(
                [progress[0], progress[2]].map { YieldedLease(progress: $0) }, workerID: 1)
            #expect(back.locked == [locked])
            #expect(back.keys == [jobs[2].key])

            try await other.runScript("rollback")
            #expect(try await store.endJobs([queue.settled(jobs[0])], workerID: 1).keys == [locked])
            // A job that is gone is neither written nor held.
            #expect(try await store.renew([jobs[0].key], workerID: 1, lease: .seconds(15)).locked.isEmpty)
        }
    }

    @Test func `that is pausing a campaign keeps no other campaign of its queue from making jobs`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            _ = try await queue.startCampaign(key: "a")
            _ = try await queue.startCampaign(key: "b")
            let producer = try await database.connect()
            try await producer.runScript("begin; select pushq.pause_campaign('\(QueueFixture.name)', 'a')")
            let step = { try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 50_000) }
            #expect(try await step() == 0, "it has seen all devices, and not yet that there are no more")
            #expect(try await step() == 1)
            let roots = "select count(*) from pushq.job j join pushq.campaign c on c.id = j.root_id where c.key = 'b'"
            #expect(try await queue.number(roots) == 1)
            try await producer.runScript("rollback")
            // While one worker fans out the first campaign, another worker does not continue with the second.
            let worker = try await database.connect()
            try await worker.runScript(
                "begin; select pushq.fan_out_step(\(queue.id), 2::smallint, null, 500, 1, 50000)")
            #expect(try await step() == nil)
            try await worker.runScript("commit")
        }
    }

    @Test func `that is changing a rate keeps no other queue's permits`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst, tat)
                select tenant_id, id, 10, 10, now() - interval '1 minute' from pushq.queue
                union all select tenant_id, 9999, 10, 10, now() - interval '1 minute' from pushq.queue
                """)
            let other = try await database.connect()
            try await other.runScript("begin; update pushq.rate_limit set rate = 5 where queue_id = \(queue.id)")
            let tenant = Int32(try await queue.number("select id from pushq.tenant"))
            let requests = [queue.id, 9999].map { PermitRequest(owner: .queue($0, ofTenant: tenant), wanted: 3) }
            let granted = try await queue.worker.takePermits(requests, horizon: .milliseconds(250))
            #expect(granted.map(\.owner) == [.queue(9999, ofTenant: tenant)])
            try await other.runScript("rollback")
        }
    }
}
