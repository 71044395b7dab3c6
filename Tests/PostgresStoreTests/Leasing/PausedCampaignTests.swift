import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(2))) struct `A job whose campaign is paused` {
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
        LeaseProgress(key: job.key, dispatched: 1, outcomes: [1, 0, 0, 0, 0])
    }

    @Test func `is told of with the next flush, set aside when it comes back, and due when the campaign goes on`()
        async throws
    {
        try await withLease { _, _, queue, job in
            try await queue.run(Self.pause)
            let kept = try await queue.connection.flush([progress(job)], owner: 1, lease: .seconds(15), number: 1)
            #expect(kept.paused == [job.key.jobID])
            try await queue.connection.yield([YieldedLease(progress: progress(job))], owner: 1)
            #expect(try await queue.number("select count(*) from pushq.job where run_at = 'infinity'") == 1)
            try await queue.run(Self.resume)
            let again = try #require(try await queue.claim().first)
            #expect(!again.isPaused)
            #expect(again.outcomes == [1, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [false, true])
    func `is told of by its claim when it came to be after the others were set aside`(isRescued: Bool) async throws {
        try await withLease { _, _, queue, job in
            try await queue.run(Self.pause)
            if isRescued {
                try await queue.run("update pushq.lease set deadline = now() - interval '1 minute'")
                #expect(try await queue.connection.rescue(grace: .zero) == 1)
            } else {
                let again = SettledJob.Again(deviceID: job.deviceIDs[2], delay: .zero, attempts: 1, losses: 0)
                let settled = queue.settled(job, other: [2: .retried(.otherPassing)], again: [again])
                #expect(try await queue.connection.retire([settled], owner: 1).count == 1)
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
            try await queue.connection.yield([YieldedLease(progress: progress(job))], owner: 1)
            try await operatorSession.runScript("commit")
            #expect(try await queue.number(Self.due) == 1)
        }
    }

    @Test func `is not left aside where its failed recipients are tried again while it is resumed`() async throws {
        try await withLease { actor, database, queue, job in
            let settled = queue.settled(job, other: [1: .failed(.otherPassing)])
            _ = try await queue.connection.retire([settled], owner: 1)
            try await queue.run(Self.pause)
            let producer = try await database.connect()
            try await producer.runScript("begin; select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')")
            let other = try await database.connect()
            let resuming = Task {
                _ = actor
                try await other.runScript(Self.resume)
            }
            try await eventually("it waits for the other") {
                try await queue.number("select count(*) from pg_locks where not granted") == 1
            }
            try await producer.runScript("commit")
            try await resuming.value
            #expect(try await queue.number(Self.due) == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(2))) struct `A producer's transaction that stays open` {
    @Test(arguments: [
        "pushq.register_device('acme/com.acme/sandbox', '0000000000000001')",
        "pushq.pause_campaign('acme/com.acme/sandbox', 'k')", "pushq.cancel_campaign('acme/com.acme/sandbox', 'k')",
        "pushq.resume_campaign('acme/com.acme/sandbox', 'k')",
    ])
    func `keeps no worker from writing, giving back, rescuing or ending its jobs`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run("insert into pushq.pace (queue_id, rate, burst) select id, 0.5, 1 from pushq.queue")
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 3)
            if call.contains("resume") {
                try await queue.run("select pushq.pause_campaign('\(QueueFixture.name)', 'k')")
            }
            let producer = try await database.connect()
            try await producer.runScript("begin; select \(call)")

            // Nothing here may wait, and it would not be a matter of a moment.
            let store = queue.connection
            let report = SettledJob.DeviceReport(
                deviceID: jobs[0].deviceIDs[0], reason: .unregistered, reportedAt: nil, sentAt: .now)
            let settled = queue.settled(jobs[0], other: [0: .rejected(.unregistered)], reports: [report])
            #expect(try await store.retire([settled], owner: 1).count == 1)
            let progress = jobs.map { LeaseProgress(key: $0.key, dispatched: 1, outcomes: [0]) }
            #expect(try await store.flush(progress, owner: 1, lease: .seconds(15), number: 1).jobIDs.count == 2)
            try await store.yield([YieldedLease(progress: progress[1])], owner: 1)
            try await queue.run("update pushq.lease set deadline = now() - interval '1 minute'")
            #expect(try await store.rescue(grace: .zero) == 1)
            #expect(try await queue.claim(owner: 2).count == 2)
            try await producer.runScript("rollback")
        }
    }

    @Test func `is waited for two seconds by the end of a job whose counts it holds, and then others go on`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let producer = try await database.connect()
            try await producer.runScript("begin; select * from pushq.campaign_tally for update")
            await #expect {
                try await queue.connection.retire([queue.settled(job)], owner: 1)
            } throws: { error in
                if case PostgresError.contended = error { true } else { false }
            }
            try await producer.runScript("rollback")
            #expect(try await queue.connection.retire([queue.settled(job)], owner: 1).count == 1)
            let limit = try await queue.connection.execute(Statement("limit", "show lock_timeout"))
            #expect(limit.first?.text(0) == "0")
        }
    }
}
