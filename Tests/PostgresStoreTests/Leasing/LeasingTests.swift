import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `Leasing a job` {
    @Test func `moves it with its recipients and the tokens of those that are active`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where token = int8send(2)")
            let campaign = try await queue.startCampaign()
            try await queue.run(
                "update pushq.device set active = true, inactive_since = null where token = int8send(2)")
            try await queue.fanOut(campaign)
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where token = int8send(4)")

            let job = try #require(try await queue.claim().first)
            #expect(job.deviceIDs.count == 5)
            #expect(job.activeIDs == job.deviceIDs.enumerated().filter { $0.offset != 3 }.map(\.element))
            #expect(job.deviceIDs.indices.map { job.token(of: $0)?.last } == [1, 2, 3, nil, 5])
            #expect(job.key.epoch == 1)
            #expect(job.rootID == campaign)
            #expect(job.message.pushType == .alert)
            #expect(job.message.payload == Array(#"{"aps":{"alert":"x"}}"#.utf8))
            #expect(job.sendWithin > .seconds(86_000))
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
            #expect(try await queue.number("select count(*) from pushq.lease") == 1)
        }
    }

    @Test func `takes sparse recipients too, in the order of their ids`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3000)
            _ = try await queue.connection.execute(
                Statement(
                    "send",
                    #"""
                    select pushq.send('acme/com.acme/sandbox', '{"aps":{"alert":"x"}}',
                                      (select array_agg(encode(int8send(i), 'hex')) from generate_series(10, 3000, 100) i))
                    """#))
            let job = try #require(try await queue.claim(lane: .normal).first)
            #expect(job.activeIDs == job.deviceIDs)
            #expect(job.deviceIDs == job.deviceIDs.sorted())
            #expect(
                job.deviceIDs.indices.map { job.token(of: $0)?.suffix(2) }
                    == (0..<30).map { QueueFixture.token(10 + 100 * $0).suffix(2) })
        }
    }

    @Test func `gives no more time than the message's expiration leaves`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            for (key, expiration) in [
                ("never", "null"), ("once", "0"), ("soon", "extract(epoch from now())::bigint + 60"),
            ] {
                try await queue.fanOut(
                    try await queue.startCampaign(key: key, options: ", expiration => \(expiration)"))
            }
            let jobs = try await queue.claim()
            #expect(jobs.map { $0.sendWithin > .seconds(3600) } == [true, true, false])
            #expect(jobs.map { $0.sendWithin > .seconds(30) } == [true, true, true])
        }
    }

    /// The tenant has moved to another database, and a worker does not know this yet.
    @Test func `is not for a queue that is not there any more`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.fanOut(try await queue.startCampaign(key: "k"))
            try await queue.run(
                "set session_replication_role = replica; delete from pushq.queue; set session_replication_role = default"
            )
            #expect(try await queue.claim().isEmpty)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
        }
    }

    @Test func `is done by one worker only, though others claim at the same time`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 50)
            try await queue.run(
                "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 0.5, 1 from pushq.queue"
            )
            try await queue.fanOut(try await queue.startCampaign())
            #expect(try await queue.number("select count(*) from pushq.job") == 50)
            var claims: [Task<[Int64], any Error>] = []
            for workerID in 1...5 {
                let connection = try await database.connect()
                let quota = ClaimQuota(queueID: queue.id, lane: .bulk, jobs: 30)
                claims.append(
                    Task {
                        _ = actor
                        return try await connection.claim(
                            [quota], workerID: Int64(workerID), lease: .seconds(15), atMostOnceWindow: 100
                        ).map(\.key.jobID)
                    })
            }
            var all: [Int64] = []
            for claim in claims { all += try await claim.value }
            #expect(all.count == 50)
            #expect(Set(all).count == 50)
        }
    }

    @Test func `leaves alone what is not due, and goes by lane and time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run("update pushq.job set run_at = now() + interval '1 hour'")
            #expect(try await queue.claim().isEmpty)
            let work = try await queue.worker.ready(pairs: 1000, countingTo: 10)
            #expect(work.jobs.map(\.lane) == [.bulk])
            let dueIn = try #require(work.jobs.first?.dueIn)
            #expect((.seconds(3590)...(.seconds(3600))).contains(dueIn))
            try await queue.run("update pushq.job set run_at = 'infinity'")
            #expect(try await queue.worker.ready(pairs: 1000, countingTo: 10).jobs.isEmpty)
        }
    }

    @Test func `comes by every queue and lane in turns where one look cannot come to all`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            // The jobs of a paused campaign are never due. They must not stop the poll before the jobs behind them.
            try await queue.run(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select 1 + i % 50, i, i % 3, case when i % 50 < 10 then 'infinity' else now() end, now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, 1000) i
                """)
            var places: [LanePlace] = []
            var place = LanePlace.start
            for _ in 1...21 {
                let work = try await queue.worker.ready(after: place, pairs: 7, countingTo: 1)
                places += work.jobs.map { LanePlace($0.queueID, $0.lane) }
                place = try #require(work.end)
            }
            // There are 150 pairs, of which 30 are never due. The polls looked at 147 of them.
            #expect(places.count >= 117)
            #expect(places.allSatisfy { place in places.count { $0 == place } == 1 })
            let behind = try await queue.worker.ready(after: places[50], pairs: 1000, countingTo: 1)
            #expect(behind.end == nil)
            #expect(behind.jobs.count == 120)
            #expect(behind.jobs.first.map { LanePlace($0.queueID, $0.lane) } == places[51])
            #expect(behind.jobs.last.map { LanePlace($0.queueID, $0.lane) } == places[50])
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A lease` {
    /// Runs `body` with a queue that has one leased job of `recipients` recipients.
    private func withLease(
        recipients: Int = 3,
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, ClaimedJob) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: recipients)
            try await queue.fanOut(try await queue.startCampaign())
            try await body(actor, queue, try #require(try await queue.claim().first))
        }
    }

    @Test func `is renewed by a flush, which keeps what is known`() async throws {
        try await withLease { _, queue, job in
            try await queue.run("update pushq.lease set deadline = now() + interval '1 second'")
            let kept = try await queue.worker.flush(
                [LeaseProgress(key: job.key, watermark: 2, outcomes: [1, 66, 0])], workerID: 1, lease: .seconds(15),
                number: 1)
            #expect(kept.keys == [job.key])
            #expect(kept.cancelled.isEmpty)
            #expect(try await queue.number("select watermark from pushq.lease") == 2)
            #expect(try await queue.number("select count(*) from pushq.lease where outcomes = '\\x014200'") == 1)
            #expect(
                try await queue.number("select count(*) from pushq.lease where deadline > now() + interval '10 s'") == 1
            )
        }
    }

    @Test func `is not taken back by a flush that was given up and comes after its repetition`() async throws {
        try await withLease { _, queue, job in
            let store = queue.connection
            let newer = LeaseProgress(key: job.key, watermark: 3, outcomes: [1, 1, 0])
            _ = try await store.flush([newer], workerID: 1, lease: .seconds(15), number: 8)
            let older = LeaseProgress(key: job.key, watermark: 2, outcomes: [1, 0, 0])
            #expect(try await store.flush([older], workerID: 1, lease: .seconds(15), number: 7).keys.isEmpty)
            #expect(try await queue.number("select watermark from pushq.lease where outcomes = '\\x010100'") == 3)
            // The number of a flush counts for one worker only.
            try await store.yield([YieldedLease(progress: newer)], workerID: 1)
            let again = try #require(try await queue.claim(workerID: 2).first)
            let first = LeaseProgress(key: again.key, watermark: 3, outcomes: [1, 1, 1])
            #expect(try await store.flush([first], workerID: 2, lease: .seconds(15), number: 1).keys.count == 1)
        }
    }

    @Test(arguments: ["epoch", "worker", "gone"])
    func `that is another's is not written, whatever is tried`(difference: String) async throws {
        try await withLease { _, queue, job in
            let key =
                difference == "epoch"
                ? LeaseKey(queueID: job.key.queueID, jobID: job.key.jobID, epoch: job.key.epoch - 1) : job.key
            let workerID: Int64 = difference == "worker" ? 2 : 1
            if difference == "gone" {
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .seconds(2)) == 1)
            }
            let progress = LeaseProgress(key: key, watermark: 3, outcomes: [1, 1, 1])
            #expect(
                try await queue.worker.flush([progress], workerID: workerID, lease: .seconds(1), number: 1).keys
                    .isEmpty
            )
            #expect(try await queue.worker.renew([key], workerID: workerID, lease: .seconds(1)).keys.isEmpty)
            try await queue.worker.yield([YieldedLease(progress: progress)], workerID: workerID)
            let settled = SettledJob(
                key: key, outcomes: [1, 192, 66],
                again: [.init(ordinal: 1, deviceID: job.deviceIDs[1], delay: .zero, attempts: 1, losses: 0)],
                reports: [.init(deviceID: job.deviceIDs[2], reason: .unregistered, reportedAt: nil, sentAt: .now)],
                notes: nil)
            #expect(try await queue.worker.endJobs([settled], workerID: workerID).keys.isEmpty)

            #expect(try await queue.number("select count(*) from pushq.result") == 0)
            #expect(try await queue.number("select count(*) from pushq.job") == (difference == "gone" ? 1 : 0))
            #expect(try await queue.number("select count(*) from pushq.lease") == (difference == "gone" ? 0 : 1))
            #expect(try await queue.number("select sum(delivered + retried) from pushq.campaign_tally") == 0)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 0)
        }
    }

    @Test func `that ran out goes back with its progress, once its grace is over`() async throws {
        try await withLease { _, queue, job in
            _ = try await queue.worker.flush(
                [LeaseProgress(key: job.key, watermark: 3, outcomes: [1, 0, 0])], workerID: 1, lease: .seconds(15),
                number: 1)
            #expect(try await queue.worker.rescue(grace: .seconds(2)) == 0)
            try await queue.run("update pushq.lease set deadline = now() - interval '1 second'")
            #expect(try await queue.worker.rescue(grace: .seconds(2)) == 0)
            #expect(try await queue.worker.rescue(grace: .zero) == 1)

            let again = try #require(try await queue.claim(workerID: 2).first)
            #expect(again.key.epoch == job.key.epoch + 1)
            #expect(again.losses == 1)
            #expect(again.attempt == 1)
            #expect(again.previousWatermark == 3)
            #expect(again.outcomes == [1, 0, 0])
        }
    }

    @Test func `that ends far ahead, by a clock that was set back, soon goes back unless its holder renews it`()
        async throws
    {
        try await withLease { _, queue, job in
            for isRenewed in [true, false] {
                try await queue.run("update pushq.lease set deadline = now() + interval '10 days'")
                #expect(try await queue.worker.rescue(grace: .seconds(2)) == 0)
                #expect(try await queue.number("select count(*) from pushq.lease where deadline > now()") == 1)
                if isRenewed { _ = try await queue.worker.renew([job.key], workerID: 1, lease: .seconds(540)) }
                try await queue.run("update pushq.lease set deadline = deadline - interval '6 minutes'")
                #expect(try await queue.worker.rescue(grace: .seconds(2)) == (isRenewed ? 0 : 1))
            }
        }
    }

    @Test func `that is yielded goes back with its attempt and nothing uncertain`() async throws {
        try await withLease { _, queue, job in
            let progress = LeaseProgress(key: job.key, watermark: 1, outcomes: [1, 0, 0])
            try await queue.worker.yield([YieldedLease(progress: progress)], workerID: 1)
            let again = try #require(try await queue.claim(workerID: 2).first)
            #expect(again.previousWatermark == 1)
            #expect([again.attempt, again.losses] == [1, 0])
            #expect(again.key.epoch == 2)
        }
    }

    @Test func `whose claim had no answer is found by its worker`() async throws {
        try await withLease { _, queue, job in
            #expect(try await queue.worker.unknownLeases(workerID: 1, known: [job.key]).isEmpty)
            #expect(try await queue.worker.unknownLeases(workerID: 2, known: []).isEmpty)
            let found = try await queue.worker.unknownLeases(workerID: 1, known: [])
            #expect(found.map(\.progress.key) == [job.key])
            try await queue.worker.yield(found.map { YieldedLease(progress: $0.asItWas) }, workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
        }
    }

    @Test(arguments: [0, 1])
    func `whose claim had no answer leaves nobody uncertain, unless a worker was lost with it before`(losses: Int)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.fanOut(try await queue.startCampaign(options: ", at_most_once => true"))
            try await queue.run("update pushq.job set losses = \(losses)")
            _ = try await queue.claim()
            let found = try await queue.worker.unknownLeases(workerID: 1, known: [])
            try await queue.worker.yield(found.map { YieldedLease(progress: $0.asItWas) }, workerID: 1)
            #expect(try await queue.claim().map(\.previousWatermark) == [losses == 0 ? 0 : 2])
        }
    }

    @Test func `at most once is granted a window at a time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.fanOut(try await queue.startCampaign(options: ", at_most_once => true"))
            let job = try #require(try await queue.claim().first)
            #expect(job.isAtMostOnce)
            #expect(try await queue.number("select watermark from pushq.lease") == 2)
        }
    }

    @Test func `a lease that a worker has lost is not taken for the one that it has of the same job now`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.fanOut(try await queue.startCampaign())
            let lost = try #require(try await queue.claim(lease: .zero).first)
            _ = try await queue.worker.rescue(grace: .zero)
            let held = try #require(try await queue.claim().first)
            #expect(held.key.jobID == lost.key.jobID)

            let store = queue.connection
            let progress = [lost, held].map { LeaseProgress(key: $0.key, watermark: 2, outcomes: [0, 0]) }
            #expect(try await store.flush(progress, workerID: 1, lease: .seconds(15), number: 1).keys == [held.key])
            #expect(try await store.renew([lost.key, held.key], workerID: 1, lease: .seconds(15)).keys == [held.key])
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: lost.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)
            let ended = try await store.endJobs(
                [queue.settled(lost, other: [0: .retried(.otherTransient)], again: [again]), queue.settled(held)],
                workerID: 1)
            #expect(ended.keys == [held.key])
            #expect(try await queue.number("select count(*) from pushq.job") == 0, "the lost one sends nothing again")
        }
    }

    @Test func `a claim says when its message was made`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let made = try await queue.number("select extract(epoch from created_at) * 1000000 from pushq.message")
            #expect(job.madeAt == Int64(made))
        }
    }
}
