import PostgresStore
import QueueCore
import TestSupport
import Testing

/// The store's part of a campaign's own rate: its jobs are found, claimed and created separately from other jobs.
@Suite(.timeLimit(.minutes(10))) struct `A campaign with a rate of its own` {
    private func poll(_ queue: QueueFixture) async throws -> ReadyWork {
        try await queue.connection.ready(pairs: 100, countingTo: 400)
    }

    private func setRate(_ rate: String, of key: String = "k", _ queue: QueueFixture) async throws {
        try await queue.run("select pushq.set_campaign_rate('\(QueueFixture.name)', '\(key)', \(rate))")
    }

    private func fanOut(_ campaign: Int64, in lane: Lane, of queue: QueueFixture, jobs: Int) async throws -> Int? {
        try await queue.connection.fanOutStep(queueID: queue.id, lane: lane, jobLimit: jobs, scanLimit: 50_000)
    }

    @Test func `has a lane of its own, in which its jobs are found with its rate, and are two seconds' worth`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let campaign = try await queue.startCampaign(key: "slow", options: ", max_rate => 12.5")
            try await queue.fanOut(try await queue.startCampaign(key: "other"))
            let open = try #require(try await poll(queue).ownLanes.first)
            #expect((open.campaignID, open.rate) == (campaign, 12.5))
            #expect(open.place.lane.peer == .bulk)
            #expect(try await fanOut(campaign, in: open.place.lane, of: queue, jobs: 3) == 3)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.job where lane = \(open.place.lane.rawValue) and recipient_count = 25")
                    == 3)
            let work = try await poll(queue)
            #expect(Set(work.jobs.map(\.lane)) == [.bulk, open.place.lane])
            #expect(work.fanOuts.map(\.readyJobs) == [3])
            #expect(Set(work.ownLanes.map(\.place)) == [open.place])
            // The same holds if the poll begins at floors.
            let head = try #require(work.jobs.first { $0.lane == .bulk }).head
            let floored = try await queue.connection.ready(above: [head], countingTo: 400, known: work.fanOuts)
            #expect(Set(floored.jobs.map(\.lane)) == [.bulk, open.place.lane])
            #expect(floored.fanOuts.map(\.readyJobs) == [3])
            #expect(Set(floored.ownLanes.map(\.rate)) == [12.5])
        }
    }

    @Test func `has a lane that no other campaign of its queue has, also when lanes begin again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await queue.startCampaign(key: "first", options: ", max_rate => 5")
            try await queue.run("select setval('pushq.lane', 715827881)")
            _ = try await queue.startCampaign(key: "second", options: ", max_rate => 5")
            #expect(try await queue.texts("select lane from pushq.fan_out order by campaign_id") == ["5", "8"])
        }
    }

    @Test func `is found once under its key, whatever rate is asked for then, and none is refused that cannot be`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let first = try await queue.startCampaign(options: ", max_rate => 12.5")
            #expect(try await queue.startCampaign(options: ", max_rate => 99") == first)
            #expect(try await queue.number("select max_rate * 10 from pushq.campaign_progress") == 125)
            for rate in ["0", "-1", "'NaN'", "'Infinity'"] {
                await #expect(throws: PostgresError.self) {
                    try await queue.startCampaign(key: rate, options: ", max_rate => \(rate)")
                }
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
        }
    }

    @Test func `takes its jobs along that wait, and those that workers hold when they come back or are claimed`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1500)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let held = try #require(try await queue.claim(1).first)
            let late = try #require(try await queue.claim(1, workerID: 2).first)
            #expect(!held.isElsewhere)
            try await setRate("50", queue)
            let own = Lane(rawValue: Int32(try await queue.number("select lane from pushq.fan_out")))!
            #expect(!own.isShared && own.peer == .bulk)
            #expect(try await queue.number("select count(*) from pushq.job where lane = \(own.rawValue)") == 1)
            // The holder learns of the new lane with the next renewal. The recipients that it gives back go to that
            // lane.
            let kept = try await queue.connection.renew([held.key], workerID: 1, lease: .seconds(15))
            #expect(kept.elsewhere == [held.key])
            try await queue.connection.yield(
                [
                    YieldedLease(
                        progress: LeaseProgress(
                            key: held.key, watermark: 0, outcomes: [UInt8](repeating: 0, count: 500)))
                ],
                workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.job where lane = \(own.rawValue)") == 2)
            // If a job comes back without its worker, the claim finds that it is in the wrong lane.
            try await queue.run(
                """
                with lost as (delete from pushq.lease returning *)
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                                       recipient_count, epoch)
                select queue_id, job_id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, epoch
                from lost
                """)
            let again = try await queue.claim(1)
            #expect(again.map(\.key.jobID) == [late.key.jobID])
            #expect(again.map(\.isElsewhere) == [true])
            #expect(try await queue.claim(5, lane: own).map(\.isElsewhere) == [false, false])
        }
    }

    @Test func `is resumed and cancelled with its jobs in both lanes that it has had`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1500)
            try await queue.fanOut(try await queue.startCampaign())
            let held = try #require(try await queue.claim(1).first)
            try await queue.run("select pushq.pause_campaign('\(QueueFixture.name)', 'k')")
            try await setRate("50", queue)
            try await queue.run(
                """
                update pushq.job set run_at = 'infinity';
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count)
                select queue_id, job_id, lane, 'infinity', send_by, message_id, campaign_id, root_id, body_day, recipient_count
                from pushq.lease where job_id = \(held.key.jobID)
                """)
            #expect(try await queue.number("select count(distinct lane) from pushq.job") == 2)
            try await queue.run("select pushq.resume_campaign('\(QueueFixture.name)', 'k')")
            #expect(try await queue.number("select count(*) from pushq.job where run_at = 'infinity'") == 0)
            try await queue.run(
                "update pushq.job set run_at = 'infinity'; select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            #expect(try await queue.number("select count(*) from pushq.job where run_at = 'infinity'") == 0)
        }
    }

    @Test func `keeps its lane when the rate is lifted, and is told of in the audit when somebody changes it`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            _ = try await queue.startCampaign(options: ", max_rate => 10")
            let told = "select count(*) from pushq.audit where object = 'rate_limit'"
            #expect(try await queue.number(told) == 0, "it was started with it")
            let lane = try await queue.number("select lane from pushq.fan_out")
            try await setRate("20", queue)
            try await setRate("null", queue)
            #expect(try await queue.number("select count(*) from pushq.rate_limit") == 0)
            #expect(try await poll(queue).ownLanes.map(\.rate) == [nil])
            try await setRate("30", queue)
            #expect(try await queue.number("select lane from pushq.fan_out") == lane)
            let entries = try await queue.connection.execute(
                Statement(
                    "told",
                    "select action, name, changes -> 'rate' ->> 'to' as rate from pushq.audit where object = 'rate_limit' order by id"
                ))
            #expect(entries.map { $0.text("action") } == ["changed", "removed", "created"])
            #expect(entries.map { $0.optionalText("rate") } == ["20", nil, "30"])
            #expect(entries.allSatisfy { $0.text("name") == "\(QueueFixture.name) k" })
            await #expect(throws: PostgresError.self, "there is no such campaign") {
                try await queue.run("select pushq.set_campaign_rate('\(QueueFixture.name)', 'nobody', 1)")
            }
        }
    }

    @Test(arguments: [(Outcome.delivered, false), (.failed(.named("ServiceUnavailable")), true)])
    func `is given no rate once it has ended, unless failed recipients can still be sent to again`(
        outcome: Outcome, canBeSent: Bool
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.fanOut(try await queue.startCampaign())
            let setRate = { try await queue.connection.setRate(5, ofCampaign: "k", ofQueue: QueueFixture.name) }
            let job = try #require(try await queue.claim().first)
            #expect(try await setRate(), "a worker has its job")
            try await queue.run("select pushq.set_campaign_rate('\(QueueFixture.name)', 'k', null)")
            _ = try await queue.worker.endJobs([queue.settled(job, other: [2: outcome])], workerID: 1)
            #expect(try await setRate() == canBeSent)
            #expect(try await queue.number("select count(*) from pushq.rate_limit") == (canBeSent ? 1 : 0))
            try await queue.run("delete from pushq.body; delete from pushq.rate_limit")
            #expect(try await !setRate(), "its recipients are no longer kept")
        }
    }
}
