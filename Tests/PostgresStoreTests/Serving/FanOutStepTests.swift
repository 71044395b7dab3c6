import TestSupport
import Testing

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `A step of a campaign's fan-out` {
    /// Steps once looked at 50,000 devices and created jobs for 20,000 of them.
    @Test func `looks at no device that another step has looked at`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12_000)
            let campaign = try await queue.startCampaign()
            let before = try await devicesRead(queue)
            var steps = 0
            while try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 2, scanLimit: 50_000) != nil
            { steps += 1 }
            let read = try await devicesRead(queue) - before
            #expect(steps >= 12)
            #expect(12_000...12_600 ~= read, "\(read)")
        }
    }

    /// Its jobs only expire. Job by job, those of a slow campaign would keep the next one waiting for hours.
    @Test(arguments: [false, true])
    func `makes full jobs, and many, once the campaign's time is over, whatever its rate`(atLocalTime: Bool)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1200)
            let time = "local_time => to_char(now() at time zone 'UTC', 'HH24:MI'), default_zone => 'UTC'"
            try await queue.connection.setRate(1, burst: nil, of: QueueFixture.name)
            let campaign = try await queue.startCampaign(options: atLocalTime ? ", \(time)" : "")
            func step() async throws -> Int? {
                try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 2, scanLimit: 50_000)
            }
            while try await step() == 0 {}
            let made = try await queue.number("select count(*) from pushq.job where recipient_count <= 2")
            #expect(1...2 ~= made)
            try await queue.run("update pushq.fan_out set send_by = now(), start_at = now()")
            var steps = 0
            while try await step() != nil { steps += 1 }
            #expect(steps <= 3)
            #expect(try await queue.number("select count(*) from pushq.job") == made + 3)
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 1200)
        }
    }

    /// Compares the recipients with a plain query.
    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 8] as [UInt64])
    func `leaves out no device, and sends to none twice, whatever its limits are`(seed: UInt64) async throws {
        try await withDatabase { _, database in
            var random = SeededGenerator(seed: seed)
            let queue = try await QueueFixture(database, devices: 4000)
            let salt = Int.random(in: 0...9999, using: &random)
            let inactive = [0, 10, 50, 99].randomElement(using: &random)!
            try await queue.run(
                """
                update pushq.device
                set active = abs(hashint8(id + \(salt)) % 100) >= \(inactive),
                    inactive_since = case when abs(hashint8(id + \(salt)) % 100) < \(inactive) then now() end,
                    kind = ('{alert,voip,null,null}'::text[])[1 + abs(hashint8(id * 31 + \(salt)) % 4)]
                """)
            let isOfList = seed.isMultiple(of: 2)
            var options = ""
            if isOfList {
                let list = try await queue.number("select pushq.new_list('\(QueueFixture.name)')")
                _ = try await queue.number(
                    """
                    select pushq.add_to_list('\(QueueFixture.name)', \(list), array_agg(encode(token, 'hex')))
                    from pushq.device
                    where hashint8(id - \(salt)) % 3 = 0 and coalesce(kind, 'alert') = 'alert'
                    """)
                options = ", list => \(list)"
            }
            let campaign = try await queue.startCampaign(options: options)
            let (jobs, scan) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...4000, using: &random))
            while try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: jobs, scanLimit: scan) != nil
            {}
            let condition = isOfList ? "hashint8(id - \(salt)) % 3 = 0" : "active"
            let expected = try await queue.texts(
                """
                select id::text from pushq.device
                where queue_id = \(queue.id) and coalesce(kind, 'alert') = 'alert' and \(condition) order by id
                """)
            let recipients = try await queue.texts(
                "select id::text from pushq.body b cross join unnest(b.device_ids) id where queue_id = \(queue.id) order by id"
            )
            #expect(recipients == expected, "seed \(seed), \(jobs) jobs and \(scan) devices a step")
        }
    }

    private func devicesRead(_ queue: QueueFixture) async throws -> Int {
        try await queue.reportStatistics()
        return try await queue.number(
            "select (seq_tup_read + idx_tup_fetch)::int8 from pg_stat_user_tables where relname = 'device'")
    }
}
