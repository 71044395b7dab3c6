import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(2))) struct `Judging suspects` {
    /// Sends to `devices` and has APNs call the tokens of every `nth` bad.
    private func send(_ devices: Int, badEvery nth: Int, in queue: QueueFixture) async throws {
        try await queue.fanOut(try await queue.startCampaign())
        for job in try await queue.claim() {
            let bad = job.deviceIDs.indices.filter { $0 % nth == 0 }
            let reason = Reason.named("BadDeviceToken")
            let outcomes = Dictionary(uniqueKeysWithValues: bad.map { ($0, Outcome.rejected(reason)) })
            let reports = bad.map {
                SettledJob.DeviceReport(deviceID: job.deviceIDs[$0], reason: reason, reportedAt: nil, sentAt: .now)
            }
            _ = try await queue.connection.retire([queue.settled(job, other: outcomes, reports: reports)], owner: 1)
        }
    }

    @Test func `case 7: few of many are deactivated`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 50, in: queue)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            let verdict = try await queue.connection.judgeSuspects()
            #expect(verdict.deactivated == 20)
            #expect(verdict.pausedQueues == 0)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 20)
            #expect(try await queue.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == 20)
            #expect(try await queue.connection.judgeSuspects().deactivated == 0)
        }
    }

    @Test func `case 8 and P59: a mass of them pauses the queue and spares its devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 500)
            try await send(500, badEvery: 1, in: queue)
            let verdict = try await queue.connection.judgeSuspects()
            #expect(verdict.deactivated == 0)
            #expect(verdict.pausedQueues == 1)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.queue where paused_reason like '500 of the last 500%'") == 1)
        }
    }

    @Test func `waits for no device that somebody is registering, and judges it when that is done`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 50, in: queue)
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin;
                select pushq.register_device('\(QueueFixture.name)', encode(d.token, 'hex'))
                from pushq.feedback f join pushq.device d on d.id = f.device_id order by d.id limit 1
                """)
            #expect(try await queue.connection.judgeSuspects().deactivated == 19)
            try await producer.runScript("rollback")
            #expect(try await queue.connection.judgeSuspects().deactivated == 1)
        }
    }

    @Test func `what the feedback service said of a device that somebody is registering is acted on when that is done`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let tokens = try await queue.connection.execute(
                Statement("tokens", "select token from pushq.device order by id")
            ).map { $0.bytes(0) }
            try await queue.connection.keepFeedback(
                of: queue.id, tokens: tokens + [[1, 2]], times: [4_000_000_000, 4_000_000_000, 1])
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin; select pushq.register_device('\(QueueFixture.name)', encode(token, 'hex'))
                from pushq.device order by id limit 1
                """)
            let first = try await queue.connection.actOnFeedback()
            #expect(first == (acted: 2, deactivated: 1), "one is known, one is nobody's")
            #expect(try await queue.connection.actOnFeedback().acted == 0)
            try await producer.runScript("rollback")
            #expect(try await queue.connection.actOnFeedback() == (acted: 1, deactivated: 1))
        }
    }

    @Test func `waits for more answers while there are few`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 40)
            try await send(40, badEvery: 40, in: queue)
            #expect(try await queue.connection.judgeSuspects().deactivated == 0)
            try await queue.run("update pushq.feedback set recorded_at = now() - interval '11 minutes'")
            #expect(try await queue.connection.judgeSuspects().deactivated == 1)
        }
    }

    @Test func `a device that no app has registered is judged by a report of 30 days ago, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            try await queue.run("update pushq.feedback set reported_at = now() - interval '30 days'")
            #expect(try await queue.connection.judgeSuspects().deactivated == 10)
        }
    }

    @Test func `a device that has registered again since stays`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            try await queue.run("update pushq.device set registered_at = now() + interval '1 second'")
            #expect(try await queue.connection.judgeSuspects().deactivated == 0)
        }
    }

    @Test func `a device that somebody brought back since stays`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            let suspect = try await queue.number("select min(device_id) from pushq.feedback")
            try await queue.run("update pushq.feedback set reported_at = now() - interval '1 second'")
            let token = try await queue.connection.execute(
                Statement("token", "select token from pushq.device where id = \(suspect)")
            ).first!.bytes(0)
            _ = try await queue.connection.setDevice(
                DeviceToken(bytes: token), inQueue: QueueFixture.name, isActive: true)
            #expect(try await queue.connection.judgeSuspects().deactivated == 9)
        }
    }
}
