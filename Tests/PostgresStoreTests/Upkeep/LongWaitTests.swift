import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `What waits for longer than history is kept` {
    private static let name = "\(QueueFixture.name)"
    private static let payload = #"{"aps":{"alert":"x"}}"#
    private static let unavailable = Reason.named("ServiceUnavailable")

    /// Sends to the first `devices` devices of the fixture. Returns the root.
    private func send(to devices: Int, _ queue: QueueFixture, options: String = "") async throws -> Int64 {
        Int64(
            try await queue.number(
                """
                select pushq.send('\(Self.name)', '\(Self.payload)',
                  array(select encode(int8send(i), 'hex') from generate_series(1, \(devices)) i)\(options))
                """))
    }

    private func status(_ root: Int64, _ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            """
            select concat_ws(' ', s.state, s.total, s.waiting, s.delivered) from pushq.status('\(Self.name)', \(root)) s
            """)
    }

    private func trace(_ index: Int, _ root: Int64, _ queue: QueueFixture) async throws -> [String] {
        var query = TraceQuery(.token(try DeviceToken(bytes: QueueFixture.token(index))))
        query.root = root
        return try await queue.connection.trace(query, inQueue: QueueFixture.name).map(\.what)
    }

    @Test func `is known by its status and its trace, as are those that are sent again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let root = try await send(to: 3, queue, options: ", send_by => now() + interval '20 days'")
            let job = try #require(try await queue.claim(lane: .normal).first)
            let again = ContinuingRecipient(
                ordinal: 1, deviceID: job.deviceIDs[1], delay: .zero, attempts: 1, losses: 0)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [1: .retried(Self.unavailable)], again: [again])], workerID: 1)
            #expect(try await status(root, queue) == ["running 3 1 2"])
            try await queue.age(byDays: 9)
            try await queue.upkeep()
            #expect(try await status(root, queue) == ["running 1 1 0"])
            let progress = try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name)
            #expect(progress?.isKnown == true && progress?.isFinished == false && progress?.waiting == 1)
            #expect(progress?.firstDeviceID == job.deviceIDs[1])

            let waiting = try await trace(2, root, queue)
            #expect(waiting.dropFirst().first == "the message was submitted; its first attempts are no longer kept")
            #expect(waiting.last?.hasPrefix("it waits") == true)
            #expect(
                try await trace(1, root, queue).last
                    == "the device is not among the recipients of this send that are still kept")
            var latest = TraceQuery(.device(job.deviceIDs[1]))
            latest.root = nil
            let found = try await queue.connection.trace(latest, inQueue: QueueFixture.name)
            #expect(found.contains { $0.rootID == root })

            let retried = try #require(try await queue.claim(lane: .normal).first)
            #expect(retried.activeIDs == [job.deviceIDs[1]])
            _ = try await queue.worker.endJobs([queue.settled(retried)], workerID: 1)
            #expect(try await status(root, queue) == ["finished 1 0 1"])
            #expect(try await trace(2, root, queue).last == "APNs accepted it")
        }
    }

    @Test func `keeps no day when its message is gone`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await send(to: 1, queue)
            _ = try await queue.startCampaign(options: ", start_at => now() + interval '1 year'")
            try await queue.age(byDays: 9)
            try await queue.run("delete from pushq.message")
            try await queue.upkeep()
            let left = "select count(*) from pg_class where relname ~ '^(body|message)_' and relkind = 'r'"
            #expect(
                try await queue.number("\(left) and right(relname, 8) < to_char(now() - interval '8 days', 'YYYYMMDD')")
                    == 0)
        }
    }

    @Test func `what was scheduled days ago is kept as long as its outcome`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let root = try await send(to: 1, queue, options: ", run_at => now() + interval '20 hours'")
            let later = try await send(to: 1, queue, options: ", run_at => now() + interval '3 days'")
            try await queue.age(byDays: 7)
            try await queue.upkeep()
            let days = "select pushq.today() - b.day from pushq.body b where b.root_id ="
            #expect(try await queue.number("\(days) \(root)") == 0)
            #expect(try await queue.number("\(days) \(later)") == 7)

            try await queue.run("update pushq.job set run_at = now() where root_id = \(root)")
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .failed(Self.unavailable)])], workerID: 1)
            try await queue.upkeep(inDays: 7)
            #expect(try await queue.number("select pushq.retry_failed('\(Self.name)', \(job.key.jobID))") == 1)
        }
    }

    /// The day of the recipients is dropped before that of the outcome, as when a job was held for days.
    @Test func `recipients that failed and are no longer kept are not listed, and nobody promises to send to them`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            _ = try await send(to: 1, queue)
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim(lane: .normal) + queue.claim()
            for job in jobs {
                _ = try await queue.worker.endJobs(
                    [queue.settled(job, other: [0: .failed(Self.unavailable)])], workerID: 1)
            }
            let failed = { try await queue.connection.failedJobs(ofQueue: QueueFixture.name, limit: 9).count }
            #expect(try await failed() == 2)
            #expect(try await queue.connection.failedJobs(ofQueue: nil, limit: 9).count == 2)
            try await queue.run("delete from pushq.body")
            #expect(try await failed() == 0)
            #expect(try await queue.connection.failedJobs(ofQueue: nil, limit: 9).isEmpty)
            for call in [
                "retry_failed('\(Self.name)', \(jobs[0].key.jobID))", "retry_failed_campaign('\(Self.name)', 'k')",
            ] {
                await #expect {
                    try await queue.run("select pushq.\(call)")
                } throws: { error in
                    "\(error)".contains("no longer kept")
                }
            }
        }
    }

    @Test func `a campaign whose message is gone does not say which devices it was for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let options = ", push_type => 'voip'"
            let campaign = try await queue.startCampaign(options: options)
            try await queue.fanOut(campaign)
            let why = "select why_nobody from pushq.status('\(Self.name)', \(campaign))"
            #expect(try await queue.texts(why) == ["the queue has no active device of kind voip"])
            try await queue.run("delete from pushq.message")
            #expect(try await queue.texts(why) == ["no device matched when it began; its message is no longer kept"])
        }
    }

    @Test(arguments: [true, false])
    func `an older update gives way to a newer one however long both wait`(olderReplaces: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            var roots: [Int] = []
            for replaces in [olderReplaces, true] {
                roots.append(
                    try await queue.number(
                        """
                        select pushq.send('\(Self.name)', '\(payload)', '{ac01}', push_type => 'liveactivity',
                                          replace_waiting => \(replaces), send_by => now() + interval '20 days')
                        """))
            }
            for column in [
                "job set run_at = run_at", "newest_update set due_at = due_at", "message set due_at = due_at",
            ] {
                try await queue.run("update pushq.\(column) - interval '9 days'")
            }
            try await queue.age(byDays: 9)
            try await queue.upkeep()
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.filter { !$0.activeIDs.isEmpty }.map { Int($0.rootID) } == [roots[1]])
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
            try await queue.upkeep()
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 0)
        }
    }

    @Test func `a cancellation is kept as long as its tenant keeps history, if that is longer than keys`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run("update pushq.tenant set key_days = 2, history_days = 60")
            let root = try await send(to: 1, queue)
            try await queue.run(
                "select pushq.cancel('\(Self.name)', \(root)); delete from pushq.job; delete from pushq.body")
            for (days, count) in [(59, 1), (2, 0)] {
                try await queue.run("update pushq.cancelled set due_at = due_at - interval '\(days) days'")
                try await queue.upkeep()
                #expect(try await queue.number("select count(*) from pushq.cancelled") == count)
            }
        }
    }

    @Test func `a table of which nothing can be deleted keeps no other from being forgotten`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                create function pushq.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
                create trigger refuse before delete on pushq.empty_send for each row execute function pushq.refuse();
                insert into pushq.empty_send (queue_id, root_id, why, created_at)
                values (\(queue.id), 1, 'no device', now() - interval '30 days');
                insert into pushq.provider_token (signer, sealed, issued_at)
                values (sha256('a'), '', now() - interval '3 hours')
                """)
            await #expect(throws: PostgresError.self) { try await queue.worker.forget() }
            #expect(try await queue.number("select count(*) from pushq.empty_send") == 1)
            #expect(try await queue.number("select count(*) from pushq.provider_token") == 0)
        }
    }

    @Test func `a day is cleared page by page, past what is still needed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for _ in 1...7 { _ = try await send(to: 1, queue) }
            // The messages of all jobs but the last are still needed.
            try await queue.run("delete from pushq.body where job_id = (select max(id) from pushq.job)")
            var (pages, gone) = (0, 0)
            var last: (Int32, Int64)? = (0, 0)
            while let (id, after) = last {
                let row = try await queue.connection.execute(
                    Statement(
                        "clear",
                        """
                        select after_queue, after_id, gone
                        from pushq.clear_day('message', pushq.today(), array[$1::int], 3, $2::int, $3::bigint)
                        """), [.int4(queue.id), .int4(id), .int8(after)]
                ).one()
                last = row.optionalInt4("after_queue").map { ($0, row.int8("after_id")) }
                (pages, gone) = (pages + 1, gone + row.count("gone"))
            }
            #expect(pages == 3 && gone == 1)
            #expect(try await queue.number("select count(*) from pushq.message") == 6)
        }
    }

    @Test func `a duty that fails is known to fail since the first time, until it succeeds`() async throws {
        try await withDatabase { _, database in
            let store = try await QueueFixture(database)
            let since = "select failing_since::text || problem from pushq.duty where name = 'upkeep'"
            func finish(_ problem: String?) async throws -> [String] {
                try await store.run("update pushq.duty set worker_id = 1 where name = 'upkeep'")
                try await store.worker.finishDuty("upkeep", workerID: 1, pause: .zero, problem: problem)
                return try await store.texts("\(since) \(problem == nil ? "and problem is not null" : "")")
            }
            let first = try await finish("x")
            #expect(try await finish("x") == first && first.first?.hasSuffix("x") == true)
            #expect(try await finish(nil).isEmpty)
        }
    }
}
