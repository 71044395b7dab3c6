import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A campaign that pauses itself` {
    private static let rejected = Outcome.rejected(.named("BadMessageId"))

    /// Ends the next `count` jobs of 20 recipients. In each of them, `bad` recipients get the outcome `outcome`.
    private func end(_ count: Int32, bad: Int, as outcome: Outcome = rejected, _ queue: QueueFixture) async throws {
        let jobs = try await queue.claim(count)
        #expect(jobs.count == Int(count))
        #expect(jobs.allSatisfy { $0.judgedCampaign == $0.rootID })
        let other = Dictionary(uniqueKeysWithValues: (0..<bad).map { ($0, outcome) })
        _ = try await queue.connection.endJobs(jobs.map { queue.settled($0, other: other) }, workerID: 1)
    }

    private func judge(_ campaign: Int64, _ queue: QueueFixture) async throws -> [String] {
        try await queue.connection.judgeCampaigns([CampaignKey(queueID: queue.id, campaignID: campaign)]).map(\.reason)
    }

    private func start(_ share: String, _ queue: QueueFixture) async throws -> Int64 {
        let campaign = try await queue.startCampaign(options: ", stop_at_errors => \(share)")
        try await queue.run(
            "select pushq.fan_out_step(\(queue.id), 2, \(campaign), 20, 100, 50000); select pushq.fan_out_step(\(queue.id), 2, \(campaign), 20, 100, 50000)"
        )
        return campaign
    }

    @Test func `does so when more of a hundred answers are bad than it allows, and says why`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start("0.05", queue)
            try await end(4, bad: 5, queue)
            #expect(try await judge(campaign, queue) == [], "there are eighty answers")
            try await end(1, bad: 0, queue)
            let reason = "20 of 100 answers were bad, which is more than 5 %"
            #expect(try await judge(campaign, queue) == [reason])
            let told = Statement(
                "told", "select paused_at is not null as paused, paused_reason from pushq.campaign_progress")
            let row = try await queue.connection.execute(told).one()
            #expect(row.bool("paused") && row.text("paused_reason") == reason)
            #expect(try await queue.number("select count(*) from pushq.fan_out where paused") == 1)
            #expect(try await judge(campaign, queue) == [], "it is paused already")
            let entry = Statement(
                "entry",
                "select changes -> 'paused_reason' ->> 'to' as reason from pushq.audit where object = 'campaign'")
            #expect(try await queue.connection.execute(entry).map { $0.text("reason") } == [reason])
        }
    }

    /// A worker that judged it used to wait for the producer, and so did what it does next for other tenants.
    @Test func `does so later if a producer is changing its rate, and nobody waits for that`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start("0.05", queue)
            try await end(5, bad: 5, queue)
            let producer = try await database.connect()
            try await producer.runScript(
                "begin; select pushq.set_campaign_rate('\(QueueFixture.name)', 'k', 100)")
            try await queue.run("set lock_timeout = '1s'")
            #expect(try await judge(campaign, queue) == [])
            // It locks the campaign before its fan-out, as others do.
            try await producer.runScript(
                "select pushq.pause_campaign('\(QueueFixture.name)', 'k'); rollback")
            #expect(try await judge(campaign, queue).count == 1)
        }
    }

    @Test func `does not do so once it has ended, whatever its last answers were`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 100)
            let campaign = try await start("0.05", queue)
            try await end(5, bad: 5, queue)
            #expect(try await judge(campaign, queue) == [], "nothing of it is left")
            #expect(try await queue.number("select count(*) from pushq.campaign where paused_at is not null") == 0)
            #expect(try await queue.number("select count(*) from pushq.fan_out where paused") == 0)
        }
    }

    @Test(arguments: [("0.05", 1), ("0.04", 0)])
    func `goes on while no more than that are bad`(share: String, bad: Int) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start(share, queue)
            try await end(6, bad: bad, queue)
            #expect(try await judge(campaign, queue) == [])
        }
    }

    @Test(arguments: [
        (Outcome.failed(.named("ServiceUnavailable")), true), (.rejected(.payloadTooLarge), true),
        (.rejected(.unregistered), false), (.rejected(.badDeviceToken), false),
        (.rejected(.deviceTokenNotForTopic), false),
        (.expired, false), (.unknown, false), (.suppressed, false),
    ])
    func `counts what is no device's fault`(outcome: Outcome, isBad: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start("0", queue)
            try await end(8, bad: 2, as: outcome, queue)
            #expect(try await judge(campaign, queue).isEmpty != isBad)
        }
    }

    @Test func `is resumed with what was answered before forgiven, and pauses itself anew`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start("0.1", queue)
            try await end(5, bad: 5, as: .failed(.named("ServiceUnavailable")), queue)
            #expect(try await judge(campaign, queue).count == 1)
            try await queue.run("select pushq.resume_campaign('\(QueueFixture.name)', 'k')")
            #expect(try await queue.number("select count(*) from pushq.campaign where paused_reason is not null") == 0)
            #expect(try await judge(campaign, queue) == [])
            // Recipients that failed and are retried no longer count as answers.
            try await queue.run("select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')")
            try await end(7, bad: 0, queue)
            #expect(try await judge(campaign, queue) == [])
            try await end(3, bad: 20, queue)
            #expect(try await judge(campaign, queue) == ["60 of 200 answers were bad, which is more than 10 %"])
        }
    }

    @Test func `counts none twice that failed, was forgiven and is sent again, beside others that were not forgiven`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let failed = Outcome.failed(.named("ServiceUnavailable"))
            let campaign = try await start("0.1", queue)
            try await end(5, bad: 5, as: failed, queue)
            #expect(try await judge(campaign, queue).count == 1)
            try await queue.run("select pushq.resume_campaign('\(QueueFixture.name)', 'k')")
            // Five failures that are not forgiven, among a hundred answers.
            try await end(5, bad: 1, as: failed, queue)
            #expect(try await judge(campaign, queue) == [])
            #expect(
                try await queue.number("select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')") == 30)
            // 95 answers that are not forgiven remain, none of them bad, and 75 older ones, all forgiven.
            try await end(1, bad: 20, queue)
            #expect(try await judge(campaign, queue) == ["20 of 115 answers were bad, which is more than 10 %"])
            try await queue.run("select pushq.resume_campaign('\(QueueFixture.name)', 'k')")
            #expect(
                try await queue.number("select forgiven * 1000 + forgiven_bad from pushq.campaign") == 190_020)
        }
    }

    @Test func `is left alone while somebody changes it, and where its share is not one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let campaign = try await start("0", queue)
            try await end(5, bad: 5, queue)
            let producer = try await database.connect()
            try await producer.runScript("begin; update pushq.campaign set paused_at = null")
            #expect(try await judge(campaign, queue) == [])
            try await producer.runScript("rollback")
            #expect(try await judge(campaign, queue).count == 1)
            // The last ones are too small, and too near to 1, for the column.
            for share in ["1", "-0.1", "'NaN'", "5", "1e-308", "0.9999999999"] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.startCampaign(key: share, options: ", stop_at_errors => \(share)")
                }
                guard case .raised(let message, _) = error else {
                    Issue.record("\(share): \(String(describing: error))")
                    continue
                }
                #expect(message.hasSuffix("is not a share of the answers"))
            }
        }
    }
}
