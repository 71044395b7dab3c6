import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Judging suspects` {
    /// Sends to `devices`, and lets APNs answer that every `nth` token is bad.
    private func send(
        _ devices: Int, badEvery nth: Int, key: String = "nightly", in queue: QueueFixture
    ) async throws {
        try await queue.fanOut(try await queue.startCampaign(key: key))
        for job in try await queue.claim() {
            let bad = job.deviceIDs.indices.filter { $0 % nth == 0 }
            let reason = Reason.named("BadDeviceToken")
            let outcomes = Dictionary(uniqueKeysWithValues: bad.map { ($0, Outcome.rejected(reason)) })
            let reports = bad.map {
                SettledJob.DeviceReport(deviceID: job.deviceIDs[$0], reason: reason, reportedAt: nil, sentAt: .now)
            }
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
        }
    }

    @Test func `few of many are deactivated`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 50, in: queue)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            let verdict = try await queue.worker.judgeSuspects()
            #expect(verdict.deactivated == 20)
            #expect(verdict.paused.isEmpty)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 20)
            #expect(try await queue.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == 20)
            #expect(try await queue.worker.judgeSuspects().deactivated == 0)
        }
    }

    /// Calls were sent to all devices, and APNs accepts no token. The app's usual tokens, which are good for alerts,
    /// are not to blame.
    @Test(arguments: [
        ("'voip'", true, Reason.deviceTokenNotForTopic, true), ("'voip'", false, .deviceTokenNotForTopic, false),
        ("'widgets'", true, .deviceTokenNotForTopic, false), ("'voip'", true, .named("BadDeviceToken"), true),
        ("'voip'", false, .named("BadDeviceToken"), true), ("'widgets'", true, .named("BadDeviceToken"), false),
        ("null", true, .named("BadDeviceToken"), false),
    ])
    func `are tokens of a push type that has its own`(
        kind: String, isRegistered: Bool, reason: Reason, isAccused: Bool
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            try await queue.run(
                """
                update pushq.device
                set kind = \(kind),
                    registered_at = \(isRegistered ? "now() - interval '1 day'" : "null")
                """)
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', '{"call":1}',
                                  array(select encode(token, 'hex') from pushq.device), push_type => 'voip')
                """)
            for job in try await queue.claim(lane: .normal) {
                let reports = job.deviceIDs.map {
                    SettledJob.DeviceReport(
                        deviceID: $0, reason: reason, accused: reason.accused(byPushOf: .voip), reportedAt: nil,
                        sentAt: .now)
                }
                let outcomes = Dictionary(
                    uniqueKeysWithValues: job.deviceIDs.indices.map { ($0, Outcome.rejected(reason)) })
                _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            }
            #expect(try await queue.worker.judgeSuspects().paused.count == (isAccused ? 1 : 0))
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
        }
    }

    @Test func `many of them pause the queue and spare its devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 500)
            try await send(500, badEvery: 1, in: queue)
            let verdict = try await queue.worker.judgeSuspects()
            #expect(verdict.deactivated == 0)
            #expect(verdict.paused.count == 1)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.queue where paused_reason like '500 of the last 500 %'") == 1)
        }
    }

    /// Judges 20 suspects and lists them, and expects that few other reports are read for that.
    private func expectFewReportsRead(in queue: QueueFixture) async throws {
        let before = try await queue.reportsRead()
        #expect(try await queue.worker.judgeSuspects().deactivated == 20)
        let judged = try await queue.reportsRead()
        #expect(judged - before < 1000, "\(judged - before)")
        #expect(try await queue.worker.listFeedback() == 20)
        let listed = try await queue.reportsRead() - judged
        #expect(listed < 1000, "\(listed)")
    }

    /// A join by key once read all reports of the day for each judgement.
    @Test(arguments: ["nothing", "reports that were listed", "suspects"])
    func `reads few reports of a day with very many, whatever the statistics know`(known: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 500)
            try await queue.addHistoryOfReports(20_000, known: known)
            try await send(500, badEvery: 25, in: queue)
            try await expectFewReportsRead(in: queue)
        }
    }

    /// The plan was made on a day that had few reports yet: it read all of the day's reports for each suspect.
    @Test func `reads few reports of a day with very many, of which the plan knew few`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 500)
            try await queue.addHistoryOfReports(0, known: "none")
            // PostgreSQL keeps a plan from the sixth call on.
            for day in 1...7 {
                try await queue.run("update pushq.device set active = true, inactive_since = null")
                try await send(500, badEvery: 25, key: "\(day)", in: queue)
                #expect(try await queue.worker.judgeSuspects().deactivated == 20)
                #expect(try await queue.worker.listFeedback() == 20)
            }
            try await queue.run("update pushq.device set active = true, inactive_since = null")
            try await queue.run(
                """
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict)
                select \(queue.id), -i, \(Reason.badDeviceToken.code), now(), now() - interval '1 hour', 'kept'
                from generate_series(1, 20000) i
                """)
            try await send(500, badEvery: 25, in: queue)
            try await expectFewReportsRead(in: queue)
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
            #expect(try await queue.worker.judgeSuspects().deactivated == 19)
            try await producer.runScript("rollback")
            #expect(try await queue.worker.judgeSuspects().deactivated == 1)
        }
    }

    @Test func `what the feedback service said of a device that somebody is registering is acted on when that is done`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let tokens = try await queue.connection.execute(
                Statement("tokens", "select token from pushq.device order by id")
            ).map { $0.bytes("token") }
            try await queue.worker.keepFeedback(
                of: queue.id, readWith: [], tokens: tokens, times: [4_000_000_000, 4_000_000_000])
            try await queue.run(
                """
                insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                values (\(queue.id), '\\x0102', \(Reason.unregistered.code), now())
                """)
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin; select pushq.register_device('\(QueueFixture.name)', encode(token, 'hex'))
                from pushq.device order by id limit 1
                """)
            let first = try await queue.worker.actOnFeedback()
            #expect(first == (acted: 2, deactivated: 1), "one is known, one is nobody's")
            #expect(try await queue.worker.actOnFeedback().acted == 0)
            try await producer.runScript("rollback")
            #expect(try await queue.worker.actOnFeedback() == (acted: 1, deactivated: 1))
        }
    }

    @Test func `whose devices somebody is writing keep no others waiting, however many they are`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12)
            try await queue.run(
                """
                insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                select d.queue_id, d.token, \(Reason.unregistered.code), now() from pushq.device d order by d.id
                """)
            let producer = try await database.connect()
            try await producer.runScript(
                "begin; select from pushq.device order by id limit 9 for update"
            )
            #expect(try await queue.worker.actOnFeedback(atMost: 4) == (acted: 3, deactivated: 3))
            #expect(try await queue.worker.actOnFeedback(atMost: 4).acted == 0)
            try await producer.runScript("rollback")
            #expect(try await queue.worker.actOnFeedback(atMost: 40) == (acted: 9, deactivated: 9))
        }
    }

    /// The verdicts on the reports about the only device, in the order of their times.
    private func verdicts(in queue: QueueFixture) async throws -> [String] {
        let rows = try await queue.connection.execute(
            Statement("verdicts", "select verdict from pushq.feedback where device_id is not null order by reported_at")
        )
        return rows.map { $0.text("verdict") }
    }

    @Test func `of two reports of a device that has registered in between, the later one deactivates it`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                update pushq.device set registered_at = now() - interval '1 minute';
                insert into pushq.feedback_record (queue_id, token, reason, reported_at, root_id, job_id)
                select d.queue_id, d.token, \(Reason.unregistered.code), now() - n * interval '40 seconds', 1, n
                from pushq.device d, generate_series(1, 2) n;
                """)
            #expect(try await queue.worker.actOnFeedback() == (acted: 2, deactivated: 1))
            #expect(try await verdicts(in: queue) == ["kept", "deactivated"])
        }
    }

    @Test func `of two bad answers about a device that has registered in between, the later one deactivates it`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await end(2, delivered: 20, bad: 1, ago: "11 minutes", every: "40 seconds", in: queue)
            try await queue.run("update pushq.device set registered_at = now() - interval '10 minutes 40 seconds'")
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict(deactivated: 1))
            #expect(try await verdicts(in: queue) == ["kept", "deactivated"])
        }
    }

    @Test func `waits for more answers while there are few`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 40)
            try await send(40, badEvery: 40, in: queue)
            #expect(try await queue.worker.judgeSuspects().deactivated == 0)
            try await queue.run("update pushq.feedback set recorded_at = now() - interval '11 minutes'")
            #expect(try await queue.worker.judgeSuspects().deactivated == 1)
        }
    }

    @Test func `a device that no app has registered is judged by a report of 30 days ago, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            try await queue.run("update pushq.feedback set reported_at = now() - interval '30 days'")
            #expect(try await queue.worker.judgeSuspects().deactivated == 10)
        }
    }

    @Test func `a device that has registered again since stays`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            try await queue.run("update pushq.device set registered_at = now() + interval '1 second'")
            #expect(try await queue.worker.judgeSuspects().deactivated == 0)
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
            ).one().bytes("token")
            _ = try await queue.connection.setDevice(
                DeviceToken(bytes: token), inQueue: QueueFixture.name, isActive: true)
            #expect(try await queue.worker.judgeSuspects().deactivated == 9)
        }
    }

    /// Ends `results` jobs in one statement, one each `interval`, the first of them `ago`. In each, `delivered` pushes
    /// are delivered, and `bad` tokens are bad.
    func end(
        _ results: Int, delivered: Int, bad: Int, reason: Reason = .badDeviceToken, ago: String = "1 second",
        every interval: String = "0", in queue: QueueFixture
    ) async throws {
        try await queue.run(
            """
            with ended as (
              insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                        delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
              select pushq.today(), \(queue.id), nextval('pushq.id'), 1, pushq.today(), 1, 1, 1,
                     now() - interval '\(ago)' + i * interval '\(interval)',
                     decode(repeat('01', \(delivered)) || repeat('42', \(bad)), 'hex'), \(delivered), \(bad), 0, 0, 0, 0, 0, 0
              from generate_series(0, \(results - 1)) i
              returning job_id, ended_at),
            device as (
              select id, row_number() over (order by id) - 1 as place from pushq.device where active)
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict)
            select \(queue.id), d.id, \(reason.code), e.ended_at, e.ended_at, 'suspect'
            from (select ended_at, row_number() over (order by job_id) - 1 as number from ended) e
            cross join generate_series(0, \(bad - 1)) n
            join device d on d.place = (e.number * \(bad) + n) % (select count(*) from device)
            """)
    }

    /// Judges step by step, as the duty does.
    func judgeAll(in queue: QueueFixture) async throws -> SuspectVerdict {
        var sum = SuspectVerdict(hasMore: true)
        while sum.hasMore {
            let verdict = try await queue.worker.judgeSuspects()
            sum.deactivated += verdict.deactivated
            sum.paused += verdict.paused
            sum.hasMore = verdict.hasMore
        }
        return sum
    }

    func count(_ verdict: String, in queue: QueueFixture) async throws -> Int {
        try await queue.number("select count(*) from pushq.feedback where verdict = '\(verdict)'")
    }

    @Test func `a single push that ends before a campaign's jobs pauses no queue with few bad tokens`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 200)
            // The campaign's jobs were created before the push, and end after it.
            try await end(60, delivered: 498, bad: 2, ago: "6 seconds", every: "50 milliseconds", in: queue)
            try await end(1, delivered: 1, bad: 0, ago: "7 seconds", in: queue)
            let verdict = try await judgeAll(in: queue)
            #expect(verdict.paused.isEmpty)
            #expect(verdict.deactivated == 120)
        }
    }

    @Test func `what a queue was paused for accuses nobody once it is resumed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await end(300, delivered: 0, bad: 1, ago: "1 hour", in: queue)
            #expect(try await queue.worker.judgeSuspects().paused.count == 1)
            #expect(try await count("kept", in: queue) == 300)
            // These pushes were on their way when the queue was paused.
            try await end(30, delivered: 0, bad: 1, ago: "50 minutes", in: queue)
            try await queue.connection.resumeQueue(QueueFixture.name)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict())
            #expect(try await count("kept", in: queue) == 330)

            // Results have the database's time, which goes on.
            try await end(1, delivered: 0, bad: 1, ago: "-1 second", in: queue)
            try await end(400, delivered: 1, bad: 0, ago: "-2 seconds", in: queue)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict(deactivated: 1))
        }
    }

    @Test func `an order to resume a queue that is not paused acquits nobody`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            try await end(300, delivered: 0, bad: 1, ago: "1 hour", in: queue)
            #expect(try await !queue.connection.resumeQueue(QueueFixture.name))
            #expect(try await queue.worker.judgeSuspects().paused.count == 1)
        }
    }

    @Test func `nobody is judged without answers from the same time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            try await end(150, delivered: 0, bad: 1, ago: "20 hours", in: queue)
            try await queue.run("delete from pushq.result")
            try await end(1000, delivered: 1, bad: 0, ago: "21 hours", in: queue)
            let verdict = try await queue.worker.judgeSuspects()
            #expect(verdict == SuspectVerdict())
            #expect(try await count("suspect", in: queue) == 150)
        }
    }

    @Test func `few answers, of which most call tokens bad, do not show that the devices are to blame`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 9)
            try await end(9, delivered: 0, bad: 1, ago: "11 minutes", in: queue)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict())
            try await end(9, delivered: 1, bad: 0, ago: "10 minutes", in: queue)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict(deactivated: 9))
        }
    }

    @Test func `one bad device among two does not pause their queue, however often it is sent to`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await end(30, delivered: 1, bad: 1, ago: "11 minutes", in: queue)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict(deactivated: 1))
        }
    }

    @Test func `a verdict says what became of the device`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await send(1000, badEvery: 100, in: queue)
            try await queue.run(
                """
                update pushq.device set registered_at = now() + interval '1 second'
                where id in (select device_id from pushq.feedback order by device_id limit 4)
                """)
            #expect(try await queue.worker.judgeSuspects().deactivated == 6)
            #expect(try await count("deactivated", in: queue) == 6)
            #expect(try await count("kept", in: queue) == 4)
        }
    }

    @Test func `a block of bad tokens in the midst of a campaign pauses the queue, however much is answered beside it`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3000)
            // A hundred results, with one bad token in a hundred, before and after the two seconds of the block.
            try await end(80, delivered: 495, bad: 5, ago: "10 seconds", every: "50 milliseconds", in: queue)
            try await end(4, delivered: 0, bad: 500, ago: "6 seconds", every: "50 milliseconds", in: queue)
            try await end(80, delivered: 495, bad: 5, ago: "5 seconds", every: "50 milliseconds", in: queue)
            let verdict = try await judgeAll(in: queue)
            #expect(verdict.paused.count == 1)
            #expect(
                verdict.deactivated >= 390 && verdict.deactivated <= 400,
                "the bad ones before and after it, and nobody of the block")
        }
    }

    @Test func `a small app whose tokens are all bad pauses its queue within a minute, and deactivates nobody`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 30)
            try await end(30, delivered: 0, bad: 1, ago: "10 seconds", in: queue)
            #expect(try await queue.worker.judgeSuspects() == SuspectVerdict(), "more answers may come")
            try await queue.run(
                "update pushq.feedback set recorded_at = now() - interval '31 s'; update pushq.result set ended_at = now() - interval '31 s'"
            )
            let verdict = try await queue.worker.judgeSuspects()
            #expect(verdict.paused.map(\.name) == ["\(QueueFixture.name)"])
            #expect(verdict.deactivated == 0)
            #expect(try await count("kept", in: queue) == 30)
        }
    }

    /// A queue that has had only bad tokens, beside a queue of the same tenant that may have the same tokens.
    private func problem(
        reason: Reason = .badDeviceToken, environment: String = "sandbox", neighbour: String? = nil,
        sharing share: Double = 1
    ) async throws -> String {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            try await queue.run("update pushq.queue set environment = '\(environment)'")
            if let neighbour {
                let name = try QueueName(parsing: neighbour)
                _ = try await queue.connection.createApp(name.app, of: name.tenant)
                _ = try await queue.connection.createQueue(name)
                try await queue.run(
                    """
                    insert into pushq.device (queue_id, token)
                    select pushq.queue_id('\(neighbour)'), token from pushq.device order by id limit \(Int(300 * share))
                    """)
            }
            try await end(300, delivered: 0, bad: 1, reason: reason, in: queue)
            let verdict = try await queue.worker.judgeSuspects()
            return try #require(verdict.paused.first).problem
        }
    }

    @Test func `the pause says that the tokens are of the other environment`() async throws {
        let start =
            "300 of the last 300 answers were BadDeviceToken: the tokens are probably of the other environment: "
        let end = ". No device was deactivated"
        let sandbox = try await problem()
        #expect(
            sandbox == start + "of the app from the App Store or TestFlight, which belong in its queue for production"
                + end)
        let production = try await problem(environment: "production")
        #expect(
            production == start + "of development builds of the app, which belong in its queue for the sandbox" + end)
    }

    @Test func `the pause names the queue that has the same tokens`() async throws {
        let known = "; 100 of the 100 that were checked are also devices of "
        let twin = "acme/com.acme/production"
        #expect(try await problem(neighbour: twin).contains("of the other environment"))
        #expect(try await problem(neighbour: twin).contains(known + twin + ". No device was deactivated"))
        #expect(try await !problem(neighbour: twin, sharing: 0.1).contains(twin))
        let other = "acme/com.acme.other/sandbox"
        let text = try await problem(neighbour: other)
        #expect(text.contains("the tokens are probably of another app than com.acme" + known + other))
    }

    @Test func `the pause says that the tokens are of another app`() async throws {
        let text = try await problem(reason: .deviceTokenNotForTopic)
        #expect(
            text
                == "300 of the last 300 answers were DeviceTokenNotForTopic: the tokens are probably of another app than com.acme. "
                + "No device was deactivated")
    }

    @Test func `the pause of one tenant's queue says nothing of another tenant's devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            _ = try await queue.connection.createTenant("beta")
            _ = try await queue.connection.createApp("com.acme", of: "beta")
            let theirs = QueueName(tenant: "beta", app: "com.acme", environment: .production)
            _ = try await queue.connection.createQueue(theirs)
            try await queue.run(
                "insert into pushq.device (queue_id, token) select pushq.queue_id('\(theirs)'), token from pushq.device"
            )
            try await end(300, delivered: 0, bad: 1, in: queue)
            let verdict = try await queue.worker.judgeSuspects()
            #expect(verdict.paused.map { $0.problem.contains("beta") } == [false])
        }
    }

    @Test func `more answers than are looked at in one step are judged in several`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            try await end(10, delivered: 98, bad: 2, ago: "10 seconds", every: "1 second", in: queue)
            var policy = SuspectPolicy()
            policy.window = 4
            var deactivated: [Int] = []
            var hasMore = true
            while hasMore {
                let verdict = try await queue.worker.judgeSuspects(policy)
                deactivated.append(verdict.deactivated)
                hasMore = verdict.hasMore
            }
            #expect(deactivated == [8, 8, 4])
        }
    }
}

extension QueueFixture {
    /// Adds reports of today that were acted on, to statistics that know only `known` of them.
    fileprivate func addHistoryOfReports(_ count: Int, known: String) async throws {
        let verdict = known == "suspects" ? "suspect" : "kept"
        try await run(
            """
            do $$ declare t regclass; begin
              for t in select relid from pg_partition_tree('pushq.feedback') where isleaf loop
                execute format('alter table %s set (autovacuum_enabled = off)', t);
              end loop;
            end $$;
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, recorded_at, verdict)
            select \(id), -i, \(Reason.badDeviceToken.code), now(), now() - interval '1 hour', '\(verdict)'
            from generate_series(1, \(count)) i;
            \(known == "nothing" ? "" : "analyze pushq.feedback;")
            update pushq.feedback set verdict = 'kept';
            """)
    }

    /// The number of reports that PostgreSQL has read so far.
    fileprivate func reportsRead() async throws -> Int {
        try await reportStatistics()
        return try await number(
            """
            select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int8 from pg_stat_user_tables
            where relname like 'feedback%'
            """)
    }
}
