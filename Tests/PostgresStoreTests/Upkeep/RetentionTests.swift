import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Forgetting what is past retention` {
    private static let payload = #"{"aps":{"alert":"x"}}"#

    private static let oldestDay = """
        select pushq.today() - min(to_date(right(relname, 8), 'YYYYMMDD'))
        from pg_inherits join pg_class c on c.oid = inhrelid
        where inhparent in ('pushq.body'::regclass, 'pushq.message'::regclass)
        """

    @Test func `a message goes with the day of its bodies`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            try await queue.upkeep(inDays: 7)
            #expect(try await queue.number("select count(*) from pushq.message") == 1)
            try await queue.upkeep(inDays: 8)
            #expect(try await queue.number("select count(*) from pushq.message") == 0)
        }
    }

    @Test func `what is scheduled for next year holds no day: it moves, and is sent when its time comes`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['ab'], run_at => now() + interval '1 year')
                """)
            let campaign = try await queue.startCampaign(options: ", start_at => now() + interval '1 year'")
            for _ in 1...2 {
                try await queue.age(byDays: 9)
                #expect(try await queue.number(Self.oldestDay) >= 9)
                try await queue.upkeep()
                #expect(try await queue.number(Self.oldestDay) <= 7)
            }
            #expect(try await queue.number("select count(*) from pushq.body") == 1)

            try await queue.run("update pushq.job set run_at = now(); update pushq.fan_out set start_at = now()")
            let single = try #require(try await queue.claim(lane: .normal).first)
            #expect(single.activeIDs.count == 1)
            #expect(single.message.payload == Array(Self.payload.utf8))
            try await queue.fanOut(campaign)
            let first = try #require(try await queue.claim().first)
            #expect(first.activeIDs.count == 4)
            #expect(first.message.payload == Array(Self.payload.utf8))
        }
    }

    @Test func `a day is kept while a worker holds a job of it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.age(byDays: 9)
            let job = try #require(try await queue.claim().first)
            try await queue.upkeep()
            #expect(try await queue.number("select count(*) from pushq.body") == 1)
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            try await queue.upkeep()
            #expect(try await queue.number("select count(*) from pushq.body") == 0)
        }
    }

    @Test(arguments: [2, -1])
    func `what is sent again after midnight has its message beside it, also when the clock goes back over it`(days: Int)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.age(byDays: days)
            let job = try #require(try await queue.claim().first)
            let settled = queue.settled(
                job, other: [0: .retried(.otherTransient), 1: .failed(.otherTransient)],
                again: [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            let retried = try #require(try await queue.claim().first)
            #expect(retried.activeIDs == [job.deviceIDs[0]])
            _ = try await queue.worker.endJobs([queue.settled(retried)], workerID: 1)

            #expect(try await queue.number("select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')") == 1)
            let again = try #require(try await queue.claim().first)
            #expect(again.activeIDs == [job.deviceIDs[1]])
            #expect(again.message.payload == job.message.payload)
        }
    }

    @Test(arguments: [
        "", #", variants => '[{"name":"v","share":0.3,"payload":{"aps":{"alert":"x"}}}]'"#,
        ", local_time => '00:00', if_passed => 'now', default_zone => 'UTC'",
    ])
    func `a campaign goes on with its message when the clock goes back over midnight, and comes to it again`(
        options: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            let campaign = try await queue.startCampaign(options: options)
            for days in [1, 0, 1, 0] {
                try await queue.run(
                    """
                    create or replace function pushq.today() returns date
                    language sql stable parallel safe as $$ select (now() at time zone 'UTC')::date + \(days) $$
                    """)
                _ = try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 250)
            }
            try await queue.fanOut(campaign)
            let jobs = try await queue.claim()
            #expect(jobs.reduce(0) { $0 + $1.activeIDs.count } == 600)
            #expect(Set(jobs.map(\.message.payload)) == [Array(#"{"aps":{"alert":"x"}}"#.utf8)])
        }
    }

    /// Does what `pushq.retry_failed` does, called after midnight in a transaction that stays open.
    private static let bringing = """
        begin;
        select pushq.bring_message(queue_id, id, day)
        from pushq.message
        where day < pushq.today() and root_id = $campaign
        """

    @Test func `a message that somebody is bringing to today keeps only its own jobs and campaign from going on`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            let campaigns = [try await queue.startCampaign(), try await queue.startCampaign(key: "other")]
            for campaign in campaigns {
                let made = try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 500)
                #expect(made == 1)
            }
            try await queue.age(byDays: 2)
            let jobs = try await queue.claim()
            let session = try await database.connect()
            try await session.runScript(Self.bringing.replacing("$campaign", with: "\(campaigns[0])"))
            let again = jobs.map { job in
                queue.settled(
                    job, other: [0: .retried(.otherTransient)],
                    again: [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)])
            }
            let written = try await queue.worker.endJobs(again, workerID: 1)
            #expect(written.keys == [jobs[1].key])
            #expect(written.locked == [jobs[0].key])
            // A job without retries needs no message of today.
            #expect(try await queue.worker.endJobs([queue.settled(jobs[0])], workerID: 1).keys == [jobs[0].key])

            let done = "select campaign_id from pushq.fan_out where done order by campaign_id"
            func fanOut() async throws {
                while try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 500) != nil {}
            }
            try await fanOut()
            #expect(try await queue.texts(done) == ["\(campaigns[1])"])
            try await session.runScript("commit")
            try await fanOut()
            #expect(try await queue.texts(done) == campaigns.map { "\($0)" })
        }
    }

    @Test func `a message that somebody is bringing to today keeps no other in a day that is to go`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            let campaigns = [try await queue.startCampaign(), try await queue.startCampaign(key: "other")]
            for campaign in campaigns {
                _ = try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 500)
            }
            try await queue.age(byDays: 9)
            let session = try await database.connect()
            try await session.runScript(Self.bringing.replacing("$campaign", with: "\(campaigns[0])"))
            // A day cannot be dropped while a transaction has read it. The worker tries again later.
            try await queue.run(
                """
                select pushq.move_waiting(pushq.today(), 7, 1000, 0, 0);
                select pushq.move_scheduled(pushq.today(), 7);
                """)
            let old = """
                select message_id from pushq.job where body_day < pushq.today()
                union all select message_id from pushq.fan_out where message_day < pushq.today()
                """
            let kept = "select id from pushq.message where root_id = \(campaigns[0]) and day < pushq.today()"
            #expect(try await queue.texts(old) == queue.texts("\(kept) union all \(kept)"))
            try await session.runScript("commit")
            try await queue.upkeep()
            #expect(try await queue.texts(old).isEmpty)
            #expect(try await queue.number(Self.oldestDay) <= 7)
        }
    }

    @Test func `the key of a send is kept for thirty days after it was due, or as long as its tenant says`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            for tenant in ["acme", "brief", "long"] {
                let name = QueueName(tenant: tenant, app: "com.acme", environment: .sandbox)
                if tenant != "acme" {
                    _ = try await store.createTenant(tenant)
                    _ = try await store.createApp("com.acme", of: tenant)
                    _ = try await store.createQueue(name)
                }
                try await queue.run("select pushq.send('\(name)', '\(Self.payload)', array['ab'], key => '\(tenant)')")
            }
            try await queue.run(
                """
                update pushq.tenant set key_days = 2 where name = 'brief';
                update pushq.tenant set key_days = 60 where name = 'long';
                """)
            for (days, kept) in [(1, "acme brief long"), (28, "acme long"), (3, "long"), (27, "long"), (3, "")] {
                try await queue.run("update pushq.send_key set due_at = due_at - interval '\(days) days'")
                try await queue.upkeep()
                let keys = try await queue.texts("select key from pushq.send_key order by key")
                #expect(keys.joined(separator: " ") == kept)
            }
        }
    }

    @Test func `a key is kept as long after a send that is due later`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['ab'], key => 'k',
                                  run_at => now() + interval '30 days')
                """)
            for (days, count) in [(30, 1), (29, 1), (2, 0)] {
                try await queue.run("update pushq.send_key set due_at = due_at - interval '\(days) days'")
                try await queue.upkeep()
                #expect(try await queue.number("select count(*) from pushq.send_key") == count)
            }
        }
    }

    /// So a repeated call that sends nothing gets a warning about the cancellation.
    @Test(arguments: [(nil, 30), (2, 2), (60, 60)])
    func `a cancellation is kept as long as the key of its send`(keyDays: Int?, kept: Int) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let call = """
                pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['ab'], key => 'k',
                           run_at => now() + interval '10 days')
                """
            try await queue.run(
                """
                select pushq.cancel('\(QueueFixture.name)', \(call));
                update pushq.tenant set key_days = \(keyDays.map(String.init) ?? "null");
                delete from pushq.job;
                delete from pushq.body
                """)
            for (days, count) in [(10 + kept - 1, 1), (2, 0)] {
                for table in ["send_key", "cancelled"] {
                    try await queue.run("update pushq.\(table) set due_at = due_at - interval '\(days) days'")
                }
                try await queue.upkeep()
                for table in ["send_key", "cancelled"] {
                    #expect(try await queue.number("select count(*) from pushq.\(table)") == count, "\(table)")
                }
            }
        }
    }

    @Test func `a send has ended whose recipients' day is gone before that of its outcomes`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = Int64(
                try await queue.number("select pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['ab'])"))
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            try await queue.run("delete from pushq.body")
            let progress = try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name)
            #expect(progress?.isFinished == true)
        }
    }

    /// Writes the history and feedback of a send, with various ages in days.
    private static func writeHistory(_ queue: QueueFixture, inQueue name: QueueName, token: String) async throws {
        try await queue.run("select pushq.send('\(name)', '\(payload)', array['\(token)'])")
        let id = try await queue.number("select pushq.queue_id('\(name)')")
        let quota = ClaimQuota(queueID: Int32(id), lane: .normal, jobs: 9)
        let jobs = try await queue.worker.claim([quota], workerID: 1, lease: .seconds(15), atMostOnceWindow: 1)
        _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
        try await queue.run(
            """
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict) values (\(id), 1, 1, now(), 'kept')
            """)
    }

    private static func kept(_ queue: QueueFixture, of name: QueueName) async throws -> [Int] {
        var counts: [Int] = []
        for table in ["body", "message", "result", "feedback"] {
            counts.append(
                try await queue.number(
                    "select count(*) from pushq.\(table) where queue_id = pushq.queue_id('\(name)') -- \(counts.count)")
            )
        }
        return counts
    }

    @Test func `a tenant's history and feedback are kept as long as it wants, and the others' as is usual`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            let others = QueueName(tenant: "other", app: "com.other", environment: .sandbox)
            _ = try await store.createTenant("other")
            _ = try await store.createApp("com.other", of: "other")
            _ = try await store.createQueue(others)
            #expect(try await setRetention("acme", .days(2), .days(40), in: store))
            #expect(try await !setRetention("nobody", .days(2), nil, in: store))
            try await Self.writeHistory(queue, inQueue: QueueFixture.name, token: "aa")
            try await Self.writeHistory(queue, inQueue: others, token: "bb")
            // A waiting send needs its recipients and its message, whatever their age.
            try await queue.run("select pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['cc'])")

            let expected: [(day: Int, own: [Int], others: [Int])] = [
                (2, [2, 2, 1, 1], [1, 1, 1, 1]), (3, [1, 1, 0, 1], [1, 1, 1, 1]), (7, [1, 1, 0, 1], [1, 1, 1, 1]),
                (8, [1, 1, 0, 1], [0, 0, 0, 1]), (31, [1, 1, 0, 1], [0, 0, 0, 0]), (41, [1, 1, 0, 0], [0, 0, 0, 0]),
            ]
            for (day, own, theirs) in expected {
                try await queue.upkeep(inDays: day)
                #expect(try await Self.kept(queue, of: QueueFixture.name) == own, "\(day) days on")
                #expect(try await Self.kept(queue, of: others) == theirs, "\(day) days on")
            }
            #expect(try await queue.claim(lane: .normal).map(\.damage) == [nil])
            #expect(try await store.tenants().map(\.historyDays) == [2, nil])
            #expect(try await setRetention("acme", .usual, nil, in: store))
            #expect(try await store.tenants().map(\.feedbackDays) == [40, nil])
            #expect(try await store.tenants().map(\.historyDays) == [nil, nil])
        }
    }

    @Test func `a day is dropped when no tenant keeps it any longer, though that is sooner than usual`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            _ = try await store.createTenant("other")
            #expect(try await setRetention("acme", .days(1), .days(2), in: store))
            #expect(try await setRetention("other", .days(3), .days(5), in: store))
            try await Self.writeHistory(queue, inQueue: QueueFixture.name, token: "aa")
            let tables = "select parent from pushq.days_of_history() where day = pushq.today() order by 1"
            let expected: [(days: Int, left: [String])] = [
                (3, ["body", "feedback", "message", "result"]), (4, ["feedback"]), (5, ["feedback"]), (6, []),
            ]
            for (days, left) in expected {
                try await queue.upkeep(inDays: days)
                #expect(try await queue.texts(tables) == left, "\(days) days on")
            }
        }
    }

    @Test func `what a tenant would lose by keeping less is what upkeep deletes of it then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            let others = QueueName(tenant: "other", app: "com.other", environment: .sandbox)
            _ = try await store.createTenant("other")
            _ = try await store.createApp("com.other", of: "other")
            _ = try await store.createQueue(others)
            try await Self.writeHistory(queue, inQueue: QueueFixture.name, token: "aa")
            try await Self.writeHistory(queue, inQueue: others, token: "bb")
            try await queue.age(byDays: 4)
            try await queue.run("update pushq.feedback set day = day - 4")
            try await Self.writeHistory(queue, inQueue: QueueFixture.name, token: "cc")

            var lost: [[Int]] = []
            for days in [5, 4, 3, 1, 3, 7] {
                var change = TenantChange()
                (change.history, change.feedback) = (.days(days), .days(days))
                let loss = try #require(try await store.loss(ofTenant: "acme", by: change))
                #expect(try await store.tenants(named: "acme").first?.historyDays != days, "nothing was changed")
                let before = try await Self.kept(queue, of: QueueFixture.name)
                #expect(try await setRetention("acme", .days(days), .days(days), in: store))
                try await queue.upkeep()
                let after = try await Self.kept(queue, of: QueueFixture.name)
                #expect([loss.jobs.count, loss.reports.count] == [before[2] - after[2], before[3] - after[3]])
                #expect(loss.isNothing == (before == after))
                lost.append([loss.jobs.count, loss.reports.count])
            }
            #expect(lost == [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0], [0, 0]])
            #expect(try await Self.kept(queue, of: others) == [1, 1, 1, 1])
            #expect(try await store.loss(ofTenant: "nobody", by: TenantChange()) == nil)
        }
    }

    @Test func `feedback is kept for a month, and no longer`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                values (\(queue.id), 1, 1, now(), 'kept')
                """)
            #expect(try await queue.connection.feedback(ofQueue: QueueFixture.name, limit: 5).count == 1)
            try await queue.upkeep(inDays: 30)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 1)
            try await queue.upkeep(inDays: 31)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 0)
        }
    }

    @Test func `what a producer has locked in an open transaction keeps nothing else from being forgotten`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = "'\(QueueFixture.name)'"
            try await queue.run(
                """
                select pushq.add_to_list(\(name), pushq.new_list(\(name)), array['aa', 'bb']) from generate_series(1, 3);
                select pushq.send(\(name), '\(Self.payload)', array['aa'], key => 'a');
                select pushq.send(\(name), '\(Self.payload)', array['bb'], key => 'b');
                update pushq.list set loaded_at = now() - interval '2 days';
                update pushq.send_key set due_at = now() - interval '30 days';
                insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
                select queue_id, id, now() - interval '30 days', 1 from pushq.device;
                insert into pushq.recent_push select queue_id, id, '{}', '{}', '{}' from pushq.device;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select queue_id, id, 1, now(), 'deactivated' from pushq.device
                """)
            // The open transaction locks the device's rows in lists and reports, and the list that it adds to. It locks
            // no key.
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin;
                select pushq.forget_device(\(name), 'aa');
                select pushq.add_to_list(\(name), (select max(id) from pushq.list), array['cc'])
                """)
            let counts = """
                select concat_ws(' ', (select count(*) from pushq.list_member), (select count(*) from pushq.list),
                                 (select count(*) from pushq.send_key), (select count(*) from pushq.newest_update),
                                 (select count(*) from pushq.recent_push),
                                 (select count(*) from pushq.feedback where cursor is null))
                """
            try await queue.worker.runScript("set lock_timeout = '2s'")
            try await queue.worker.forget()
            #expect(try await queue.worker.listFeedback() == 1)
            #expect(try await queue.texts(counts) == ["4 3 0 1 1 1"], "the device's, and the list that is open")
            try await producer.runScript("rollback")
            try await queue.worker.forget()
            #expect(try await queue.worker.listFeedback() == 1)
            #expect(try await queue.texts(counts) == ["0 0 0 0 0 0"])
        }
    }

    @Test func `millions of lists without a campaign are forgotten in steps`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.list (queue_id, loaded_at)
                select \(queue.id), now() - interval '2 days' from generate_series(1, 12000)
                """)
            for found in [5000, 5000, 2000, 0] {
                let after = try await queue.number("select coalesce(max(id), 0) from pushq.list where abandoned")
                let rows = "pushq.lists_to_forget(\(queue.id), \(after), 5000)"
                #expect(try await queue.number("select count(*) from \(rows)") == found)
            }
            try await queue.run("update pushq.list set abandoned = false")
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.list") == 0)
        }
    }

    @Test func `a removed app whose device a producer has locked keeps nothing else from being forgotten`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                """
                insert into pushq.empty_send (queue_id, root_id, why, created_at)
                values (\(queue.id) + 1, 1, 'no device', now() - interval '30 days')
                """)
            let producer = try await database.connect()
            try await producer.runScript("begin; update pushq.device set user_key = 'anna'")
            try await queue.run("select pushq.remove_app('acme', 'com.acme')")
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.empty_send") == 0)
            try await producer.runScript("commit")
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.device") == 0)
        }
    }

    @Test func `a removed app is deleted in steps, and by upkeep if that was interrupted`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12_000)
            try await queue.fanOut(try await queue.startCampaign())
            _ = try await queue.claim(1)
            try await queue.run("select pushq.remove_app('acme', 'com.acme')")
            await #expect(throws: PostgresError.self, "nothing is accepted any more") {
                try await queue.run("select pushq.send('\(QueueFixture.name)', '\(Self.payload)', array['ab'])")
            }
            var steps = 0
            try await queue.connection.forget { () async throws(PostgresError) in
                steps += 1
                return steps < 15
            }
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
            #expect(try await queue.number("select count(*) from pushq.lease") == 0)
            let left = try await queue.number("select count(*) from pushq.device")
            #expect(left > 0 && left < 12_000, "it was told to stop among the devices")
            try await queue.worker.forget()
            for table in ["device", "campaign", "campaign_tally", "fan_out", "list"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0)
            }
            #expect(try await queue.number("select count(*) from pushq.removed_queue") == 1)
            try await queue.run("update pushq.removed_queue set removed_at = now() - interval '25 hours'")
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.removed_queue") == 0)
        }
    }

    @Test func `a send that was committed while its app was removed holds no day of history`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let producer = try await database.connect()
            let payload = Self.payload
            try await producer.runScript(
                """
                begin;
                select pushq.send('\(QueueFixture.name)', '\(payload)', array['ab']);
                select pushq.start_campaign('\(QueueFixture.name)', 'k', '\(payload)')
                """)
            _ = try await queue.connection.removeApp("com.acme", of: "acme")
            try await producer.runScript("commit")
            #expect(try await queue.number("select count(*) from pushq.job") == 1)

            try await queue.upkeep()
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
            #expect(try await queue.number("select count(*) from pushq.fan_out") == 0)
        }
    }

    @Test func `a provider token goes soon after the credential that it was for, though no other is made`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.provider_token (signer, sealed, issued_at)
                select sha256(int8send(hours)), '', now() - make_interval(hours => hours)
                from unnest(array[0, 1, 3]) hours
                """)
            try await queue.upkeep()
            #expect(try await queue.number("select count(*) from pushq.provider_token") == 2)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.provider_token where issued_at < now() - interval '2 h'")
                    == 0)
        }
    }

    private func setRetention(
        _ tenant: String, _ history: RetentionDays?, _ feedback: RetentionDays?, in store: PostgresConnection
    ) async throws -> Bool {
        var change = TenantChange()
        (change.history, change.feedback) = (history, feedback)
        return try await store.setTenant(tenant, to: change)
    }
}
