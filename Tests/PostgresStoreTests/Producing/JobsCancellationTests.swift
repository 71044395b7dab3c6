import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Cancelling many jobs` {
    private static let name = QueueFixture.name
    private static let cancelled = "select count(*) from pushq.cancelled"

    /// Makes `jobs` jobs of one recipient each.
    private func send(_ jobs: Int, in queue: QueueFixture) async throws {
        try await queue.run(
            #"""
            select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')])
            from generate_series(1, \#(jobs)) i
            """#)
    }

    /// Cancels all waiting and held jobs, and also the jobs `others`, by one call.
    private func cancelPage(and others: [Int64] = [], in queue: QueueFixture) async throws -> [String] {
        let jobs = "(select id from pushq.job union all select job_id from pushq.lease) limit 500"
        let more = "'{\(others.map(String.init).joined(separator: ","))}'::bigint[]"
        return try await queue.texts(
            "select concat_ws(' ', stopped, held, locked) from pushq.cancel_jobs('\(Self.name)', array(\(jobs)) || \(more))"
        )
    }

    @Test func `has one entry in the audit for each page, and the counts that job by job would give`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send(501, in: queue)
            #expect(try await queue.claim(1, lane: .normal).count == 1)
            var told: [Int] = []
            let sum = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter()) { told.append($0) }
            #expect([sum.jobs, sum.recipients, sum.stopped, sum.held] == [501, 501, 500, 1])
            #expect(told == [500, 501])
            #expect(try await queue.number(Self.cancelled) == 501)
            let entries = """
                select concat_ws(' ', name, changes -> 'jobs' ->> 'to', changes -> 'recipients' ->> 'to')
                from pushq.audit where object = 'job' and action = 'cancelled' order by id
                """
            #expect(try await queue.texts(entries) == ["\(Self.name) 500 500", "\(Self.name) 1 1"])
            #expect(try await queue.claim(lane: .normal).allSatisfy(\.isCancelled))

            let again = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter())
            #expect(again.jobs == 0)
            #expect(try await cancelPage(in: queue).count == 1, "it changes nothing")
            #expect(try await queue.number("select count(*) from (\(entries)) e") == 2)
        }
    }

    @Test(arguments: ["job", "lease"])
    func `does not let others wait for one that is locked`(table: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send(3, in: queue)
            if table == "lease" { #expect(try await queue.claim(3, lane: .normal).count == 3) }
            let column = table == "job" ? "id" : "job_id"
            let locked = try await queue.number("select min(\(column)) from pushq.\(table)")
            let other = try await database.connect()
            try await other.runScript("begin; select from pushq.\(table) where \(column) = \(locked) for update")

            try await queue.run("set lock_timeout = '500ms'")
            let counts = table == "job" ? "2 0" : "0 2"
            #expect(try await cancelPage(in: queue) == ["\(counts) {\(locked)}"])
            #expect(try await queue.number(Self.cancelled) == 2)
            // The command waits for it, but only when it has cancelled the others.
            try await queue.run("delete from pushq.cancelled")
            let sum = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter())
            #expect([sum.jobs, sum.recipients, sum.stopped + sum.held, sum.locked] == [2, 2, 2, 1])
            #expect(try await queue.number(Self.cancelled) == 2)

            try await other.runScript("rollback")
            let rest = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter())
            #expect(rest.jobs == 1 && rest.stopped + rest.held == 1)
            #expect(try await queue.number(Self.cancelled) == 3)
        }
    }

    /// What a producer locks in a transaction that it leaves open must not keep the jobs of later pages running.
    @Test func `goes on to later pages when jobs of the first one stay locked`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send(502, in: queue)
            let other = try await database.connect()
            try await other.runScript("begin; select from pushq.job order by id limit 2 for update")

            queue.connection.terms = StatementTerms()
            let stopwatch = Stopwatch()
            let sum = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter())
            #expect([sum.jobs, sum.recipients, sum.stopped, sum.held, sum.locked] == [500, 500, 500, 0, 2])
            #expect(stopwatch.quietTime < TestServer.patience / 2, "it waits for each lock for a moment only")
            #expect(try await queue.number(Self.cancelled) == 500)

            try await other.runScript("rollback")
            let rest = try await queue.connection.cancelJobs(ofQueue: Self.name, JobFilter())
            #expect([rest.jobs, rest.stopped, rest.held, rest.locked] == [2, 2, 0, 0])
        }
    }

    @Test func `warns of a job that has ended meanwhile, and cancels the others`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send(2, in: queue)
            let ended = try await queue.claim(1, lane: .normal)
            try await queue.end(ended)
            let job = try #require(ended.first).key.jobID
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            #expect(try await cancelPage(and: [job], in: queue) == ["1 0 {}"])
            #expect(
                warnings.count == 1 && warnings[0].contains("job \(job) has ended: there is nothing left to cancel"),
                "\(warnings)")
            #expect(try await queue.texts("select id from pushq.cancelled") != ["\(job)"])
            #expect(try await queue.number(Self.cancelled) == 1)
        }
    }

    @Test func `looks up those that have ended once for each day of history`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (days, jobs) = (30, 100)
            try await queue.run(
                """
                do $$
                begin
                  for n in 1..\(days) loop
                    while pushq.make_partition(pushq.today() - n, 0) is not null loop end loop;
                  end loop;
                end $$;
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                          outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
                                          retried)
                select pushq.today() - n, \(queue.id), n * 1000 + i, n * 1000 + i, pushq.today() - n, 1, 0, 1, now(),
                       decode('01', 'hex'), 1, 0, 0, 0, 0, 0, 0, 0
                from generate_series(1, \(days)) n, generate_series(1, 1000) i;
                analyze pushq.result
                """)
            let scans = "select sum(idx_scan) from pg_stat_user_tables where relname ~ '^result'"
            try await queue.reportStatistics()
            let before = try await queue.number(scans)
            let ended = (1...jobs).map { Int64(days * 1000 + $0) }
            #expect(try await cancelPage(and: ended, in: queue) == ["0 0 {}"])
            try await queue.reportStatistics()
            // Today's and yesterday's days, and those ahead, are there, too.
            #expect(try await queue.number("\(scans) -- afterwards") - before < 2 * jobs * (days + 10))
        }
    }

    @Test(arguments: [
        ("array(select id from pushq.job) || 4711::bigint", "there is no job 4711 in queue"),
        ("array(select id from pushq.job) || null::bigint", "there is no job null in queue"),
        ("null", "jobs cannot be null"),
        ("array(select generate_series(1, 501))", "jobs has 501 numbers, and can have at most 500"),
    ])
    func `is refused as a whole for a job that there is not, and for too many`(jobs: String, problem: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send(1, in: queue)
            await #expect {
                try await queue.run("select pushq.cancel_jobs('\(Self.name)', \(jobs))")
            } throws: { error in
                "\(error)".contains(problem)
            }
            #expect(try await queue.number(Self.cancelled) == 0)
        }
    }

    /// A newer update that is cancelled lets the one before it be sent, and a recipient that may have got it does not.
    @Test func `brings back the updates that they replaced`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            for timestamp in 1...2 {
                for device in 1...2 {
                    try await queue.run(
                        #"""
                        select pushq.send(
                          '\#(Self.name)', '{"aps":{"timestamp":\#(timestamp),"event":"update","content-state":{}}}',
                          tokens => array[encode(int8send(\#(device)), 'hex')], push_type => 'liveactivity',
                          replace_waiting => true)
                        """#)
                }
            }
            let updates = try await queue.texts("select id from pushq.job order by id")
            try await queue.run("update pushq.job set losses = 1 where id = \(updates[3])")
            let counts = try await queue.texts(
                "select concat_ws(' ', stopped, held) from pushq.cancel_jobs('\(Self.name)', '{\(updates[2]),\(updates[3])}')"
            )
            #expect(counts == ["1 0"])
            // Of the first device only the older update is left, of the second one both.
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 3)
        }
    }
}
