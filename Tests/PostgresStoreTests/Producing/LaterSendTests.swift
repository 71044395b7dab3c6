import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A send to a user for later` {
    private static let name = QueueFixture.name

    private func send(_ queue: QueueFixture, options: String = "") async throws -> Int64 {
        let arguments = #"'{"aps":{"alert":"x"}}', user_key => 'ann', run_at => now() + interval '5 days'\#(options)"#
        return Int64(try await queue.number("select pushq.send('\(Self.name)', \(arguments))"))
    }

    private func register(_ token: String, _ queue: QueueFixture, user: String = "ann") async throws {
        try await queue.run("select pushq.register_device('\(Self.name)', '\(token)', '\(user)')")
    }

    /// Makes everything that waits due.
    private func pass(_ queue: QueueFixture) async throws {
        try await queue.run(
            """
            update pushq.job set run_at = run_at - interval '5 days';
            update pushq.newest_update set due_at = due_at - interval '5 days';
            update pushq.message set due_at = due_at - interval '5 days'
            """)
    }

    private func progress(_ root: Int64, _ queue: QueueFixture) async throws -> RootProgress {
        try #require(try await queue.connection.progress(ofRoot: root, inQueue: Self.name))
    }

    /// Claims what is due, and looks up the recipients as a worker does. Returns the jobs, which can then be sent.
    private func claimed(_ queue: QueueFixture) async throws -> [ClaimedJob] {
        let unknown = try await queue.claim(lane: .normal)
        #expect(unknown.allSatisfy { $0.awaitsRecipients && $0.damage == nil })
        try await queue.worker.findRecipients(of: unknown.map(\.key), workerID: 1)
        return try await queue.claim(lane: .normal)
    }

    @Test func `goes to the devices that the user has then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for token in ["a1", "a2", "a3"] { try await register(token, queue) }
            let root = try await send(queue)
            #expect(try await progress(root, queue).awaitsRecipients)
            #expect(try await progress(root, queue).isKnown)
            #expect(try await !progress(root, queue).isFinished)
            try await register("a4", queue)
            try await register("a2", queue, user: "bob")
            _ = try await queue.connection.setDevice(DeviceToken(hex: "a1"), inQueue: Self.name, isActive: false)

            #expect(try await queue.claim(lane: .normal).isEmpty)
            let due = try await queue.number("select id from pushq.job")
            try await pass(queue)
            let job = try #require(try await claimed(queue).first)
            #expect(job.deviceIDs.indices.map { job.token(of: $0) } == [[0xA3], [0xA4]])
            #expect(job.rootID == root)
            #expect(job.key.jobID == Int64(due), "it can still be cancelled by its number")
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            #expect(try await progress(root, queue).tally.delivered == 2)
            #expect(try await progress(root, queue).isFinished)
        }
    }

    /// Also where jobs are small because the queue is slow.
    @Test func `is one job, which can be cancelled, however many devices the user has`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 0.5, 1 from pushq.queue
                """)
            for token in ["a1", "a2", "a3"] { try await register(token, queue) }
            _ = try await send(queue)
            let job = try await queue.number("select id from pushq.job")
            let cancelled = try await queue.texts("select stopped from pushq.cancel_job('\(Self.name)', \(job))")
            #expect(cancelled == ["1"], "the devices are not known yet")
            let jobs = try await claimed(queue)
            #expect(jobs.map(\.deviceIDs.count) == [3] && jobs.allSatisfy(\.isCancelled))
        }
    }

    @Test func `reaches nobody if the user has no device then, and says so`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("a1", queue)
            let root = try await send(queue)
            try await queue.run("select pushq.unregister_device('\(Self.name)', 'a1')")
            try await pass(queue)
            #expect(try await claimed(queue).isEmpty)
            #expect(try await progress(root, queue).whyNobody == "user “ann” has no device in this queue")
            #expect(try await progress(root, queue).isFinished)
            #expect(try await queue.number("select count(*) from pushq.lease") == 0)
        }
    }

    @Test func `goes back for a second while somebody else is bringing its message to today`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("a1", queue)
            let root = try await send(queue)
            try await pass(queue)
            try await queue.run(
                """
                do $$
                begin
                  while pushq.make_partition(pushq.today() - 1, 0) is not null loop end loop;
                end $$;
                update pushq.message set day = day - 1;
                update pushq.body set day = day - 1;
                update pushq.job set body_day = body_day - 1;
                """)
            let session = try await database.connect()
            try await session.runScript(
                "begin; select pushq.bring_message(queue_id, id, day) from pushq.message where root_id = \(root)")
            #expect(try await claimed(queue).isEmpty)
            #expect(try await queue.number("select count(*) from pushq.job where run_at > now()") == 1)
            #expect(try await queue.number("select count(*) from pushq.lease") == 0)
            try await session.runScript("rollback")
            try await queue.run("update pushq.job set run_at = now()")
            #expect(try await claimed(queue).map(\.activeIDs.count) == [1])
        }
    }

    @Test func `to several users reaches nobody only if none of them has a device then, and says so`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func send(to users: String) async throws -> Int64 {
                let options = "run_at => now() + interval '5 days'"
                let arguments = #"'{"aps":{"alert":"x"}}', user_keys => '{\#(users)}', \#(options)"#
                return Int64(try await queue.number("select pushq.send('\(Self.name)', \(arguments))"))
            }
            func trace(_ root: Int64, of whom: String) async throws -> String? {
                try await queue.texts(
                    "select what from pushq.trace('\(Self.name)', \(whom), send => \(root))"
                ).last
            }
            let roots = [try await send(to: "ann,bob,cleo"), try await send(to: "bob,cleo"), try await send(to: "bob")]
            try await register("a1", queue)
            try await register("c1", queue, user: "cleo")
            _ = try await queue.connection.setDevice(DeviceToken(hex: "c1"), inQueue: Self.name, isActive: false)
            try await pass(queue)
            let jobs = try await claimed(queue)
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)

            var reasons: [String?] = []
            for root in roots {
                let progress = try await progress(root, queue)
                #expect(progress.isFinished)
                reasons.append(progress.whyNobody)
            }
            let nobody = "none of the users has an active device in this queue"
            #expect(reasons == [nil, nobody, "user “bob” has no device in this queue"])
            #expect(
                try await queue.number("select count(why_nobody) from pushq.status('\(Self.name)', \(roots[0]))") == 0)
            #expect(try await trace(roots[0], of: "user_key => 'ann'") == "APNs accepted it")
            #expect(try await trace(roots[0], of: "user_key => 'bob'") == "the user has no device in this queue")
            #expect(
                try await trace(roots[0], of: "user_key => 'cleo'")
                    == "the device is not among the recipients of this send")
            #expect(try await trace(roots[1], of: "user_key => 'cleo'") == "the send reached nobody: \(nobody)")
        }
    }

    @Test func `is cancelled before anybody knows whom it is for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("a1", queue)
            let root = try await send(queue)
            _ = try await queue.connection.cancelSend(root, inQueue: Self.name)
            let jobs = try await claimed(queue)
            #expect(jobs.map(\.isCancelled) == [true])
        }
    }

    @Test func `is left to whoever holds it by then, if its worker was lost with it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("a1", queue)
            _ = try await send(queue)
            try await pass(queue)
            let lost = try await queue.claim(lane: .normal, workerID: 2, lease: .zero)
            #expect(try await queue.worker.rescue(grace: .zero) == 1)
            try await queue.worker.findRecipients(of: lost.map(\.key), workerID: 2)
            let jobs = try await claimed(queue)
            #expect(jobs.map(\.activeIDs.count) == [1])
            #expect(jobs.map(\.losses) == [0], "nothing was sent")
        }
    }

    /// A worker asks for the recipients of many tenants with one statement.
    @Test func `that reaches nobody waits a second if its record is being deleted, and keeps no worker waiting`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("a1", queue)
            let (first, later) = (try await send(queue), try await send(queue))
            try await queue.run("update pushq.device set active = false, inactive_since = now()")
            try await pass(queue)
            try await queue.run(
                "insert into pushq.empty_send (queue_id, root_id, why) values (\(queue.id), \(first), 'another user')")
            let producer = try await database.connect()
            try await producer.runScript("begin; delete from pushq.empty_send")
            let jobs = try await queue.claim(lane: .normal)
            try await queue.worker.runScript("set statement_timeout = '5s'")
            try await queue.worker.findRecipients(of: jobs.map(\.key), workerID: 1)
            #expect(try await progress(later, queue).isFinished)
            #expect(try await !progress(first, queue).isFinished)
            #expect(
                try await queue.texts(
                    "select (run_at between now() and now() + interval '1 second')::text from pushq.job")
                    == ["true"])
            try await producer.runScript("commit")
            try await queue.run("update pushq.job set run_at = now()")
            #expect(try await claimed(queue).isEmpty)
            #expect(try await progress(first, queue).whyNobody == "no device of user “ann” is active in this queue")
            #expect(try await queue.number("select count(*) from pushq.body") == 0)
        }
    }

    @Test func `takes the place of older updates of those devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'a1', 'ann', kind => 'liveactivity')")
            let update = #""aps":{"timestamp":1,"event":"update","content-state":{}}"#
            try await queue.run(
                "select pushq.send('\(Self.name)', '{\(update)}', array['a1'], push_type => 'liveactivity')")
            let arguments = "user_key => 'ann', push_type => 'liveactivity', replace_waiting => true"
            let root = try await queue.number(
                "select pushq.send('\(Self.name)', '{\(update)}', \(arguments), run_at => now() + interval '1 day')")
            try await queue.run("update pushq.job set run_at = now() where root_id = \(root)")
            try await queue.run("update pushq.message set due_at = now() where root_id = \(root)")
            let jobs = try await queue.claim(lane: .normal)
            try await queue.worker.findRecipients(
                of: jobs.filter(\.awaitsRecipients).map(\.key), workerID: 1)
            let other = try #require(jobs.first { !$0.awaitsRecipients })
            #expect(other.activeIDs.count == 1, "the newer one was not known yet")
            try await queue.worker.yield(
                [YieldedLease(progress: LeaseProgress(key: other.key, watermark: 0, outcomes: [0]))], workerID: 1)
            let again = try await queue.claim(lane: .normal)
            #expect(again.map { $0.rootID == Int64(root) ? $0.activeIDs.count : -$0.activeIDs.count } == [0, 1])
        }
    }
}
