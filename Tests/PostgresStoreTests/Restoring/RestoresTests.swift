import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A restored database. These tests mark it as restored by hand. `EndToEndTests/RestoreTests.swift` tests that pushq
/// recognises real backups.
@Suite(.timeLimit(.minutes(10))) struct `After a restore` {
    private static let name = "\(QueueFixture.name)"
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    /// Makes this database look like a copy of another cluster's database, that is, restored.
    private func restore(_ queue: QueueFixture) async throws {
        try await queue.run(
            """
            update pushq.lineage set name = '1/2/3/4';
            select setval('pushq.known_lineage', 0), setval('pushq.known_start', 0)
            """)
    }

    /// Does what a worker does when it connects.
    @discardableResult
    private func found(_ queue: QueueFixture) async throws -> DatabaseCopy {
        try #require(try await queue.worker.followTimeline())
    }

    private func withQueue(
        devices: Int = 5, _ body: @escaping @Sendable (TestDatabase, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in try await body(database, QueueFixture(database, devices: devices)) }
    }

    /// Something that waits, with the number of its remaining recipients.
    struct Backlog: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let sql: String
        let recipients: Int

        init(_ what: String, _ recipients: Int, _ sql: String) {
            testDescription = what
            self.recipients = recipients
            self.sql = sql
        }

        static let fanOutStep = """
            select pushq.fan_out_step(f.queue_id, f.lane, f.campaign_id, 2, 1, 3) from pushq.fan_out f
            """
        static let campaign = "select pushq.start_campaign('QUEUE', 'k', PAYLOAD)"

        static let all = [
            Backlog("single sends", 2, "select pushq.send('QUEUE', PAYLOAD, tokens => array['aa', 'bb'])"),
            Backlog("a send to a user", 1, "\(owned); select pushq.send('QUEUE', PAYLOAD, user_key => 'anna')"),
            Backlog(
                "a send to a user that was for later", 2,
                """
                \(owned); update pushq.device set user_key = 'anna' where token = '\\x0000000000000002';
                select pushq.send('QUEUE', PAYLOAD, user_key => 'anna', run_at => now() + interval '1 hour');
                update pushq.job set run_at = now() - interval '1 second'
                """),
            Backlog("a campaign that has made no job", 5, campaign),
            Backlog("a campaign that has made some of its jobs", 5, "\(campaign); \(fanOutStep)"),
            Backlog(
                "a campaign of which a recipient has a newer token", 5,
                """
                select pushq.register_device('QUEUE', '0000000000000005', 'anna', installation => 'phone');
                \(campaign); \(fanOutStep);
                select pushq.register_device('QUEUE', 'ff05', 'anna', installation => 'phone')
                """),
            Backlog(
                "a campaign to a list", 3,
                """
                select pushq.start_campaign('QUEUE', 'k', PAYLOAD, tokens => array['aa', 'bb', 'cc']); \(fanOutStep)
                """),
            Backlog(
                "a campaign with a filter", 1,
                "\(owned); select pushq.start_campaign('QUEUE', 'k', PAYLOAD, filter => 'user = ''anna''')"),
            Backlog(
                "a campaign at a local time", 5,
                """
                select pushq.start_campaign('QUEUE', 'k', PAYLOAD, local_time => '00:00', default_zone => 'UTC',
                                            if_passed => 'now');
                select pushq.fan_out_step(f.queue_id, f.lane, f.campaign_id, 2, 1, 2) from pushq.fan_out f
                """),
            Backlog("a campaign that is paused", 5, "\(campaign); select pushq.pause_campaign('QUEUE', 'k')"),
            Backlog(
                "a job of which some recipients were answered", 3,
                """
                \(campaign); select pushq.fan_out_step(f.queue_id, f.lane, f.campaign_id, 500, 9, 99)
                from pushq.fan_out f, generate_series(1, 2);
                update pushq.job set outcomes = '\\x0100010000', watermark = 5
                """),
        ]
        private static let owned =
            "update pushq.device set user_key = 'anna' where token = '\\x0000000000000001'"

        var script: String {
            sql.replacing("QUEUE", with: "\(QueueFixture.name)").replacing("PAYLOAD", with: #"'{"aps":{"alert":"x"}}'"#)
        }
    }

    /// Fans out everything that is due, and claims it.
    private func claimAll(_ queue: QueueFixture) async throws -> [ClaimedJob] {
        let open = "select count(*) from pushq.fan_out where not done and not paused"
        for _ in 0..<50 {
            guard try await queue.number(open) > 0 else { break }
            try await queue.run(
                "select pushq.fan_out_step(f.queue_id, f.lane, f.campaign_id, 2, 2, 50) from pushq.fan_out f")
        }
        return try await queue.claim(100, lane: .bulk) + queue.claim(100, lane: .normal)
            + queue.claim(100, lane: .urgent)
    }

    /// Expects `unknown` recipients that end as unknown, and `sent` recipients that are sent to.
    private func expect(
        _ jobs: [ClaimedJob], unknown: Int, sent: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var (found, others) = (0, 0)
        for job in jobs {
            let waiting = job.outcomes.isEmpty ? job.deviceIDs.count : job.outcomes.count { $0 == 0 }
            if job.isAtMostOnce, job.previousWatermark == job.deviceIDs.count {
                found += waiting
            } else {
                others += waiting
            }
        }
        #expect(found == unknown, "unknown", sourceLocation: sourceLocation)
        #expect(others == sent, "sent to", sourceLocation: sourceLocation)
    }

    @Test(arguments: Backlog.all, [true, false])
    func `what waits is counted, not claimed before somebody decides, and then what was decided`(
        backlog: Backlog, sends: Bool
    ) async throws {
        try await withQueue { _, queue in
            try await queue.run(backlog.script)
            try await restore(queue)
            #expect(try await found(queue).undecidedQueues == 1)
            #expect(try await queue.claim(100, lane: .bulk).isEmpty)
            #expect(try await queue.claim(100, lane: .normal).isEmpty)

            let waits = try #require(try await queue.connection.restoredQueues().first)
            #expect(waits.recipients == backlog.recipients)
            #expect(waits.atMostOnce == 0)
            let decision = try await queue.connection.resumeRestored(QueueFixture.name, sends: sends)
            #expect(decision.recipients == backlog.recipients)
            #expect(decision.unknown == (sends ? 0 : backlog.recipients))
            #expect(try await queue.connection.restoredQueues().isEmpty)

            try await queue.run("select pushq.resume_campaign('\(Self.name)', key) from pushq.campaign")
            let jobs = try await claimAll(queue)
            expect(jobs, unknown: sends ? 0 : backlog.recipients, sent: sends ? backlog.recipients : 0)
        }
    }

    @Test func `what a paused campaign may have sent is unknown, also if it is cancelled meanwhile`() async throws {
        try await withQueue { _, queue in
            try await queue.fanOut(try await queue.startCampaign())
            // Workers have put the jobs aside.
            try await queue.run(
                "select pushq.pause_campaign('\(Self.name)', 'k'); update pushq.job set run_at = 'infinity'")
            try await restore(queue)
            try await found(queue)
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'k')")
            #expect(try await queue.connection.resumeRestored(QueueFixture.name, sends: false).unknown == 5)
            expect(try await queue.claim(lane: .bulk), unknown: 5, sent: 0)
        }
    }

    @Test(arguments: [false, true])
    func `the holdout of a campaign is not counted, as it gets nothing`(hasBegun: Bool) async throws {
        try await withQueue(devices: 200) { _, queue in
            let campaign = try await queue.startCampaign(options: ", holdout => 0.5")
            let step = "select pushq.fan_out_step(f.queue_id, f.lane, f.campaign_id, 10, 3, 60) from pushq.fan_out f"
            if hasBegun { try await queue.run(step) }
            try await restore(queue)
            try await found(queue)
            let waits = try #require(try await queue.connection.restoredQueues().first)
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: false)
            try await queue.fanOut(campaign)
            let made = try await queue.number("select sum(recipient_count) from pushq.job")
            #expect(waits.recipients == made)
            #expect(made > 50 && made < 150)
            #expect(try await queue.number("select count(*) from pushq.job where watermark < recipient_count") == 0)
        }
    }

    @Test func `data that was loaded into tables made here is found, once`() async throws {
        try await withQueue { _, queue in
            try await queue.fanOut(try await queue.startCampaign())
            let copies = "select count(*) from pushq.lineage"
            let before = try await queue.number(copies)
            // The dump's copy is not in `lineage`, because its row has the number of the one that is here.
            try await queue.run("select setval('pushq.known_lineage', 0), setval('pushq.known_start', 0)")
            #expect(try await found(queue).undecidedQueues == 1)
            #expect(try await queue.connection.restoredQueues().map(\.recipients) == [5])
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: true)
            #expect(try await found(queue).undecidedQueues == 0)
            #expect(try await queue.number(copies) == before + 1)
        }
    }

    @Test func `sequences that were not copied with their tables catch up`() async throws {
        try await withQueue { _, queue in
            // The copy that was replicated had been restored before, so its ids are far beyond a new sequence's.
            try await restore(queue)
            try await found(queue)
            try await queue.run(Backlog.all[0].script)
            let drawn = "select max(root_id) from pushq.job"
            let last = try await queue.number(drawn)
            try await restore(queue)
            try await queue.run(
                """
                do $$
                declare
                  one regclass;
                begin
                  for one in select c.oid from pg_class c where c.relkind = 'S' and c.relnamespace = 'pushq'::regnamespace
                  loop
                    execute format('alter sequence %s restart', one);
                  end loop;
                end $$
                """)
            #expect(try await found(queue).undecidedQueues == 1)
            #expect(try await queue.connection.restoredQueues().map(\.recipients) == [2])
            try await queue.run("select pushq.send('\(Self.name)', \(Self.payload), tokens => array['cc'])")
            #expect(try await queue.number(drawn) > last)
            #expect(try await queue.connection.createTenant("beta"))
            #expect(try await queue.connection.createApp("com.beta", of: "beta") == .created)
        }
    }

    /// As at a subscriber of logical replication, in whose tables `migrate` had recorded this copy of the database.
    @Test func `sequences that are behind rows that came after a migration catch up`() async throws {
        try await withQueue { _, queue in
            try await queue.run(Backlog.all[0].script)
            let drawn = "select max(root_id) from pushq.job"
            let last = try await queue.number(drawn)
            try await queue.run(
                """
                update pushq.lineage set name = '1/2/3/4';
                do $$
                declare
                  one text;
                begin
                  for one in
                    select sequencename from pg_sequences
                    where schemaname = 'pushq' and sequencename not in ('known_lineage', 'known_start')
                  loop
                    execute format('alter sequence pushq.%I restart', one);
                  end loop;
                end $$
                """)
            #expect(try await found(queue).undecidedQueues == 1)
            try await queue.run("select pushq.send('\(Self.name)', \(Self.payload), tokens => array['cc'])")
            #expect(try await queue.number(drawn) > last + 1 << 49)
            #expect(try await queue.connection.createTenant("beta"))
            #expect(try await queue.connection.createApp("com.beta", of: "beta") == .created)
        }
    }

    @Test func `a job that a worker holds is taken from it`() async throws {
        try await withQueue { _, queue in
            try await queue.fanOut(try await queue.startCampaign())
            let held = try #require(try await queue.claim().first)
            try await restore(queue)
            try await found(queue)
            let decision = try await queue.connection.resumeRestored(QueueFixture.name, sends: false)
            #expect(decision.unknown == 5)
            #expect(
                try await queue.worker.endJobs([queue.settled(held)], workerID: 1).keys.isEmpty, "it comes too late")
            expect(try await queue.claim(), unknown: 5, sent: 0)
        }
    }

    @Test func `what may be sent only once is unknown in any case`() async throws {
        try await withQueue { _, queue in
            try await queue.fanOut(try await queue.startCampaign(key: "once", options: ", at_most_once => true"))
            _ = try await queue.startCampaign(key: "later made", options: ", at_most_once => true")
            try await queue.fanOut(try await queue.startCampaign(key: "more"))
            try await restore(queue)
            try await found(queue)
            let waits = try #require(try await queue.connection.restoredQueues().first)
            #expect(waits.recipients == 15)
            #expect(waits.atMostOnce == 10)
            #expect(try await queue.connection.resumeRestored(QueueFixture.name, sends: true).unknown == 10)
            expect(try await claimAll(queue), unknown: 10, sent: 5)
            // The answer to the claim was lost, and the worker gives back what it finds in its name.
            let found = try await queue.worker.unknownLeases(workerID: 1, known: [])
            _ = try await queue.worker.yield(found.map { YieldedLease(progress: $0.asItWas) }, workerID: 1)
            expect(try await claimAll(queue), unknown: 10, sent: 5)
        }
    }

    @Test func `what was due by the clock of the lost server waits for a decision, even if this clock is behind`()
        async throws
    {
        try await withQueue { _, queue in
            try await queue.run(
                """
                select pushq.send('\(Self.name)', \(Self.payload), tokens => array['aa'], run_at => now() + interval '30 min');
                update pushq.message set created_at = now() + interval '1 hour'
                """)
            try await restore(queue)
            #expect(try await found(queue).undecidedQueues == 1)
            #expect(try await queue.connection.restoredQueues().map(\.recipients) == [1])
        }
    }

    @Test func `what was not due yet waits for nobody's decision, and is sent at its time`() async throws {
        try await withQueue { _, queue in
            try await queue.run(
                """
                select pushq.send('\(Self.name)', \(Self.payload), tokens => array['0000000000000001'],
                                  run_at => now() + interval '1 hour')
                """)
            try await restore(queue)
            #expect(try await found(queue).undecidedQueues == 0)
            // With something else that is due, this send is still not counted.
            _ = try await queue.startCampaign()
            try await restore(queue)
            #expect(try await found(queue).undecidedQueues == 1)
            #expect(try await queue.connection.resumeRestored(QueueFixture.name, sends: false).recipients == 5)
            try await queue.run("update pushq.job set run_at = now() where campaign_id is null")
            expect(try await queue.claim(lane: .normal), unknown: 0, sent: 1)
        }
    }

    @Test func `what producers call from then on is neither counted nor unknown, also if a worker comes later`()
        async throws
    {
        try await withQueue { database, queue in
            let before = try await queue.startCampaign()
            let devices = try await queue.number("select max(id) from pushq.device")
            try await restore(queue)
            let producer = try await database.connect()
            let send = "select pushq.send('\(Self.name)', \(Self.payload), tokens => array['aa'])"
            // A transaction that is rolled back has drawn identifiers all the same.
            try await producer.runScript("begin; \(send); rollback; \(send)")
            try await found(queue)
            #expect(try await queue.connection.resumeRestored(QueueFixture.name, sends: false).unknown == 5)
            let jobs = try await claimAll(queue)
            expect(jobs, unknown: 5, sent: 1)
            let gap = Int64(1) << 50
            let new = try #require(jobs.first { !$0.isAtMostOnce })
            #expect(new.rootID > before + gap && new.rootID < before + 2 * gap, "numbers are skipped, and once")
            #expect(new.deviceIDs[0] > Int64(devices) + gap)
        }
    }

    @Test func `a queue is resumed by a decision alone`() async throws {
        try await withQueue { _, queue in
            _ = try await queue.startCampaign()
            try await restore(queue)
            try await found(queue)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.connection.resumeQueue(QueueFixture.name)
            }
            #expect(error?.description.contains("pushq-admin restore resume \(Self.name) --send") == true)
            // The next worker finds the same.
            #expect(try await found(queue).undecidedQueues == 1)
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: true)
            #expect(try await found(queue).undecidedQueues == 0)
            #expect(try await queue.number("select count(*) from pushq.queue where paused_at is not null") == 0)
            await #expect(throws: PostgresError.self) {
                try await queue.connection.resumeRestored(QueueFixture.name, sends: true)
            }
        }
    }

    @Test(arguments: [true, false], [true, false])
    func `a queue that was paused stays paused after the decision`(isPausedBefore: Bool, isRepeated: Bool)
        async throws
    {
        try await withQueue { _, queue in
            _ = try await queue.startCampaign()
            if isPausedBefore { try await queue.connection.pauseQueue(QueueFixture.name, reason: "lunch") }
            try await restore(queue)
            try await found(queue)
            let reason = "select count(*) from pushq.queue where paused_reason"
            #expect(try await queue.number("\(reason) like 'the database was restored%'") == 1)
            if !isPausedBefore { try await queue.connection.pauseQueue(QueueFixture.name, reason: "lunch") }
            if isRepeated { try await queue.connection.declareRestore() }
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: true)
            #expect(try await queue.number("\(reason) = 'lunch'") == 1)
        }
    }

    /// The ways in which jobs start to wait again before an operator has decided.
    enum Return: CaseIterable { case campaignResumed, rescued, yielded, jobResumed }

    @Test(arguments: Return.allCases)
    func `what may have been sent stays among what is undecided, however it comes back`(way: Return) async throws {
        try await withQueue { _, queue in
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            var held: [ClaimedJob] = []
            switch way {
            case .campaignResumed: try await queue.run("select pushq.pause_campaign('\(Self.name)', 'k')")
            case .rescued, .yielded: held = try await queue.claim()
            case .jobResumed:
                try await queue.run(
                    """
                    update pushq.job set run_at = 'infinity';
                    insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at)
                    select queue_id, id, 'refused', now() from pushq.job
                    """)
            }
            // The job's previous worker was lost.
            try await queue.run("update pushq.lease set losses = 1")
            try await restore(queue)
            try await found(queue)
            switch way {
            case .campaignResumed: try await queue.run("select pushq.resume_campaign('\(Self.name)', 'k')")
            case .rescued:
                try await queue.expireLeases()
                #expect(try await queue.worker.rescue(grace: .zero) == 1)
            case .yielded:
                let leases = held.map { job in
                    YieldedLease(
                        progress: LeaseProgress(
                            key: job.key, watermark: 0, outcomes: [UInt8](repeating: 0, count: job.deviceIDs.count)),
                        delay: .seconds(60))
                }
                try await queue.worker.yield(leases, workerID: 1)
            case .jobResumed:
                #expect(try await queue.connection.resumeJobs(ofQueue: QueueFixture.name, only: nil) == 1)
            }
            #expect(try await queue.number("select count(*) from pushq.lease") == 0)
            #expect(try await queue.connection.restoredQueues().first?.recipients == 5)
            let decision = try await queue.connection.resumeRestored(QueueFixture.name, sends: false)
            #expect(decision.unknown == 5)
            expect(try await claimAll(queue), unknown: 5, sent: 0)
        }
    }

    /// The operator's action on the credential before the decision.
    enum Remedy: CaseIterable { case nothing, replaced, another }

    @Test(arguments: Remedy.allCases)
    func `a queue that a worker paused for its credential goes on if that was replaced before the decision`(
        remedy: Remedy
    ) async throws {
        try await withQueue { _, queue in
            try await queue.run(
                """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                select id, n, 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', ''
                from pushq.tenant, unnest(array['main', 'spare']) n;
                update pushq.queue q
                set credential_id = c.id, paused_at = now(), paused_reason = 'APNs answered 403',
                    paused_credential_version = c.version
                from pushq.credential c
                where c.name = 'main'
                """)
            _ = try await queue.startCampaign()
            try await restore(queue)
            try await found(queue)
            switch remedy {
            case .nothing: break
            case .replaced: try await queue.run("update pushq.credential set version = version + 1 where name = 'main'")
            case .another:
                #expect(try await queue.connection.useCredential("spare", forQueue: QueueFixture.name))
            }
            let paused = "select count(*) from pushq.queue where paused_at is not null"
            #expect(try await queue.number(paused) == 1)
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: true)
            #expect(try await queue.number(paused) == (remedy == .nothing ? 1 : 0))
            #expect(
                try await queue.number(
                    "select count(*) from pushq.queue where (paused_credential_version is null) = (paused_at is null)")
                    == 1)
        }
    }

    @Test(arguments: [true, false])
    func `a schedule starts no run that may have been started, until somebody decides`(sends: Bool) async throws {
        try await withQueue { _, queue in
            try await queue.run(
                """
                select pushq.add_schedule('\(Self.name)', 'hourly', '@hourly', \(Self.payload), after_outage => 'once');
                update pushq.schedule set next_at = pushq.cron_run(cron, time_zone, now(), true)
                """)
            try await restore(queue)
            try await found(queue)
            #expect(try await queue.connection.restoredQueues().first?.runs == 1)
            #expect(try await queue.worker.runDueSchedule() == nil)
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: sends)
            let run = try await queue.worker.runDueSchedule()
            #expect((run != nil) == sends)
            #expect(try await queue.number("select count(*) from pushq.schedule where next_at > now()") == 1)
        }
    }

    @Test func `a schedule whose time zone is unknown here is paused where its runs are not wanted`() async throws {
        try await withQueue { _, queue in
            try await queue.run(
                """
                select pushq.add_schedule('\(Self.name)', 'hourly', '@hourly', \(Self.payload), after_outage => 'once');
                update pushq.schedule set next_at = now() - interval '1 minute', time_zone = 'Europe/Atlantis'
                """)
            try await restore(queue)
            try await found(queue)
            _ = try await queue.connection.resumeRestored(QueueFixture.name, sends: false)
            #expect(try await queue.worker.runDueSchedule() == nil)
            #expect(try await queue.number("select count(*) from pushq.schedule where paused_at is not null") == 1)
        }
    }

    @Test func `a poll finds it too, behind a pooler that keeps a worker's session`() async throws {
        try await withQueue { _, queue in
            try await queue.fanOut(try await queue.startCampaign())
            try await restore(queue)
            _ = try await queue.worker.execute(
                Statement("poll", "select count(*) from pushq.ready_work(-1, 0, 10, 10)"))
            #expect(try await queue.claim().isEmpty)
        }
    }

    @Test func `that cannot be seen, it is declared`() async throws {
        try await withQueue { _, queue in
            let before = try await queue.startCampaign()
            try await queue.connection.declareRestore()
            #expect(try await queue.connection.restoredQueues().map(\.recipients) == [5])
            #expect(try await queue.startCampaign(key: "next") > before + 1 << 50)
        }
    }

    /// A worker that keeps running knows queues and credentials by their IDs, including those that are lost.
    @Test(arguments: ["found", "declared"])
    func `no number of a tenant, an app, a credential or a queue that may be lost is given out again`(how: String)
        async throws
    {
        try await withQueue { _, queue in
            func drawn() async throws -> [Int] {
                try await queue.texts(
                    """
                    select nextval(pg_get_serial_sequence('pushq.' || t, 'id'))
                    from unnest('{tenant, app, credential, queue}'::text[]) t
                    """
                ).map { try #require(Int($0)) }
            }
            let before = try await drawn()
            if how == "found" {
                try await restore(queue)
                try await found(queue)
            } else {
                try await queue.connection.declareRestore()
            }
            #expect(zip(before, try await drawn()).allSatisfy { $1 > $0 + 10_000 })
        }
    }

    /// As when the first restore went to the wrong moment. What was sent in between is known to nobody but Apple and
    /// the workers that run on.
    @Test func `a second copy of the same backup draws other identifiers than the first`() async throws {
        try await withQueue { _, queue in
            let sequences = [
                "pushq.id", "pushq.tenant_id_seq", "pushq.app_id_seq", "pushq.credential_id_seq", "pushq.queue_id_seq",
            ]
            var values: [Int] = []
            for name in sequences { values.append(try await queue.number("select last_value from \(name)")) }
            var drawn: [[Int]] = []
            for _ in 1...2 {
                for (name, value) in zip(sequences, values) {
                    try await queue.run("select setval('\(name)', \(value))")
                }
                try await restore(queue)
                try await found(queue)
                var next: [Int] = []
                for name in sequences { next.append(try await queue.number("select nextval('\(name)')")) }
                drawn.append(next)
            }
            // Two random numbers are as close as this once in 500,000 runs, and once in 200,000.
            #expect(abs(drawn[0][0] - drawn[1][0]) > 1 << 30)
            #expect(zip(drawn[0], drawn[1]).allSatisfy { $0 != $1 }, "\(drawn)")
        }
    }

    @Test func `no number is given out again by the first command, whatever it creates`() async throws {
        try await withQueue { _, queue in
            let before = try await queue.number("select last_value from pushq.app_id_seq")
            try await restore(queue)
            try await queue.run(
                "insert into pushq.app (tenant_id, bundle_id) select id, 'com.new' from pushq.tenant limit 1")
            #expect(try await queue.number("select id from pushq.app where bundle_id = 'com.new'") > before + 100_000)
        }
    }

    @Test func `nothing is paused where the server was only started again`() async throws {
        try await withQueue { _, queue in
            let before = try await queue.startCampaign()
            try await queue.run("select setval('pushq.known_start', 0)")
            #expect(try await found(queue).undecidedQueues == 0)
            #expect(try await queue.startCampaign(key: "next") < before + 1000 * 1024, "no number is skipped")
        }
    }
}
