import PostgresStore
import TestSupport
import Testing

@Suite struct `A duty of the fleet` {
    private static let duty = [(name: "figures", idlePause: Duration.zero, longestPause: Duration.zero)]

    @Test func `that a worker took without learning it is taken again by that worker at once, and by no other`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            func take(_ workerID: Int64) async throws -> String? {
                try await connection.takeDuty(Self.duty, workerID: workerID, lease: .seconds(60))
            }
            #expect(try await take(1) == "figures")
            #expect(try await take(2) == nil)
            #expect(try await take(1) == "figures", "the answer may have been lost")
            try await connection.finishDuty("figures", workerID: 1, pause: .zero)
            #expect(try await take(2) == "figures")
            #expect(try await take(1) == nil)
        }
    }

    @Test func `comes in the order of the worker's list if several have been due for the same time`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let names = ["upkeep", "credentials", "figures"]
            for order in [names, names.reversed()] {
                try await connection.runScript(
                    "update pushq.duty set next_at = 'epoch', worker_id = null, deadline = null")
                var taken: [String] = []
                while let name = try await connection.takeDuty(
                    order.filter { !taken.contains($0) }.map { ($0, .zero, .zero) }, workerID: 1, lease: .seconds(60))
                {
                    taken.append(name)
                }
                #expect(taken == order)
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A duty that has nothing to do` {
    /// The duties that may have nothing to do.
    private static let names = ["suspects", "reports", "quotas", "schedules", "listing", "webhooks", "feedback"]

    private func take(_ names: [String], in queue: QueueFixture) async throws -> String? {
        try await queue.worker.takeDuty(
            names.map { ($0, .seconds(600), .seconds(3600)) }, workerID: 1, lease: .seconds(60))
    }

    private func makeDue(_ queue: QueueFixture) async throws {
        try await queue.run("update pushq.duty set next_at = now(), worker_id = null, deadline = null")
    }

    @Test func `is put off for its own time, as if it had run, and beside one that has work`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var duties = Self.names.enumerated().map { index, name in
                (name: name, idlePause: Duration.seconds(1000 * (index + 1)), longestPause: Duration.seconds(10_000))
            }
            duties.append((name: "upkeep", idlePause: .zero, longestPause: .zero))
            // A worker was lost with the first one.
            try await queue.run(
                "update pushq.duty set worker_id = 7, deadline = now() - interval '1 s' where name = 'suspects'")
            #expect(try await queue.worker.takeDuty(duties, workerID: 1, lease: .seconds(60)) == "upkeep")
            let pauses = try await queue.texts(
                """
                select name || ' ' || round(extract(epoch from next_at - now()) / 1000)
                from pushq.duty
                where name not in ('upkeep', 'credentials', 'figures') and worker_id is null and deadline is null
                order by next_at
                """)
            #expect(pauses == Self.names.enumerated().map { index, name in "\(name) \(index + 1)" })
            #expect(try await queue.worker.takeDuty(duties, workerID: 2, lease: .seconds(60)) == nil)
        }
    }

    /// SQL that gives a duty something to do.
    private static let work: [(String, String)] = [
        ("suspects", report("suspect", daysAgo: 1)), ("listing", report("deactivated", daysAgo: 5)),
        ("listing", report("undone", daysAgo: 0)),
        (
            "reports",
            "insert into pushq.feedback_record (queue_id, token, reason, reported_at) values (1, int8send(1), 1, now())"
        ),
        (
            "schedules",
            """
            insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
            select id, 's', '* * * * *', 'UTC', 'skip', '{}', '{}', now() from pushq.queue
            """
        ),
        (
            "webhooks",
            """
            insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', '' from pushq.tenant;
            insert into pushq.webhook_progress (tenant_id, cursor, newest) select id, 1, 2 from pushq.tenant
            """
        ),
        ("feedback", "update pushq.queue set gateway = 'binary'"),
        ("quotas", "insert into pushq.tenant_quota (tenant_id, max_devices) select id, 10 from pushq.tenant"),
        ("quotas", "insert into pushq.call (tenant_id) values (1)"),
        // Only a run that succeeds shows that the problem is gone.
        ("reports", "update pushq.duty set problem = 'x', failing_since = now() where name = 'reports'"),
    ]

    private static func report(_ verdict: String, daysAgo: Int) -> String {
        """
        do $$ begin
          while pushq.make_partition(pushq.today() - \(daysAgo), 0) is not null loop end loop;
        end $$;
        insert into pushq.feedback (day, queue_id, device_id, reason, reported_at, verdict)
        select pushq.today() - \(daysAgo), id, 1, 1, now(), '\(verdict)' from pushq.queue
        """
    }

    @Test(arguments: work) func `is taken as soon as it has`(name: String, work: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            #expect(try await take([name], in: queue) == nil)
            try await queue.run(work)
            #expect(try await take([name], in: queue) == nil, "it was put off")
            try await makeDue(queue)
            #expect(try await take(Self.names, in: queue) == name)
            try await queue.worker.finishDuty(name, workerID: 1, pause: .zero)
            #expect(try await queue.number("select count(*) from pushq.duty where problem is not null") == 0)
        }
    }

    /// This session waits for locks without a limit, as behind a pooler.
    @Test func `is put off while a table is locked that others read, and these are run`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let session = try await database.connect()
            try await session.runScript("begin; lock table pushq.feedback")
            #expect(try await take(["reports", "quotas", "schedules", "webhooks", "feedback"], in: queue) == nil)
            let later = "select count(*) from pushq.duty where next_at > now() + interval '1 minute'"
            #expect(try await queue.number(later) == 5)
            #expect(try await take(["suspects", "listing"], in: queue) == "suspects")
            #expect(try await take(["listing"], in: queue) == "listing")
            try await session.runScript("rollback")
        }
    }

    @Test func `is found by indexes, whatever is there for later or was done before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.schedule (queue_id, name, cron, time_zone, after_outage, payload, options, next_at)
                select id, 's' || i, '0 0 * * *', 'UTC', 'skip', '{}', '{}', now() + interval '1 day'
                from pushq.queue, generate_series(1, 10000) i;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select id, i, 1, now(), 'kept' from pushq.queue, generate_series(1, 10000) i
                """)
            let count = """
                select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)
                from pg_stat_user_tables where relname ~ '^(schedule|feedback)'
                """
            try await queue.reportStatistics()
            let before = try await queue.number(count)
            for _ in 1...3 {
                try await makeDue(queue)
                #expect(try await take(Self.names, in: queue) == nil)
            }
            try await queue.reportStatistics()
            #expect(try await queue.number("\(count) -- afterwards") - before < 100)
        }
    }
}
