import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Somebody's transaction keeps the rows of all leases that ended since, and statistics were collected while no lease
/// was held: the planner takes the table for empty, whatever its size. Then a join by key reads all of it.
@Suite(.timeLimit(.minutes(10))) struct `Statements on leases among the rows of many that have ended` {
    /// A queue with single pushes that a worker has claimed.
    private struct World {
        let queue: QueueFixture
        let jobs: [ClaimedJob]
        /// The pages of the table.
        let pages: Int

        var progress: [LeaseProgress] {
            jobs.map { LeaseProgress(key: $0.key, watermark: 1, outcomes: [0]) }
        }

        /// The number of pages of the table and its index that PostgreSQL read while `body` ran.
        func pagesRead(_ body: () async throws -> Void) async throws -> Int {
            let count = """
                select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
                from pg_statio_user_tables
                where relid = 'pushq.lease'::regclass
                """
            try await queue.reportStatistics()
            let before = try await queue.number(count)
            try await body()
            try await queue.reportStatistics()
            return try await queue.number("\(count) -- afterwards") - before
        }

        /// Calls `body`, which must find each lease by its key. A look-up reads a few pages, and so does adding an
        /// index entry for a new version of the row.
        func expectLookUps(_ name: Comment, _ body: () async throws -> Void) async throws {
            let read = try await pagesRead(body)
            #expect(read < 40 * jobs.count && 40 * jobs.count < pages, name)
        }
    }

    private func withDeadLeases(
        jobs count: Int32 = 20, _ body: @escaping @Sendable (World) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: Int(count))
            let reader = try await database.connect()
            try await queue.run("alter table pushq.lease set (autovacuum_enabled = off)")
            try await reader.runScript("begin isolation level repeatable read; select 1")
            try await queue.run(
                """
                insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane, run_at,
                                         send_by, message_id, root_id, body_day, recipient_count, attempt, losses,
                                         at_most_once)
                select \(queue.id), i, 1, 1, now(), 1, decode('00', 'hex'), 0, now(), now() + interval '1 day', 0, 0,
                       pushq.today(), 1, 0, 0, false
                from generate_series(1, 80000) i;
                delete from pushq.lease;
                analyze pushq.lease;
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')])
                from generate_series(1, \(count)) i
                """)
            #expect(try await queue.number("select count(*) from pg_stats where tablename = 'lease'") == 0)
            #expect(try await queue.number("select reltuples from pg_class where oid = 'pushq.lease'::regclass") == 0)
            let jobs = try await queue.claim(count, lane: .normal)
            #expect(jobs.count == Int(count))
            let pages = try await queue.number("select pg_relation_size('pushq.lease') / 8192")
            try await body(World(queue: queue, jobs: jobs, pages: pages))
            try await reader.runScript("rollback")
        }
    }

    @Test(arguments: [(moved: "- interval '1 minute'", rescued: 20), (moved: "+ interval '1 day'", rescued: 0)])
    func `rescue reads the table once for each of its two searches`(moved: String, rescued: Int) async throws {
        try await withDeadLeases { world in
            let queue = world.queue
            try await queue.run("update pushq.lease set deadline = now() \(moved)")
            let read = try await world.pagesRead {
                let jobs = try await queue.worker.rescue(grace: .seconds(1))
                #expect(jobs == rescued)
            }
            #expect(read < 3 * world.pages, "\(read) of \(world.pages) pages")
            let ahead = "select count(*) from pushq.lease where deadline > now() + interval '10 minutes'"
            #expect(try await queue.number(ahead) == 0)
        }
    }

    @Test func `ends find each lease by its key, also those of jobs that are sent again or were lost`() async throws {
        try await withDeadLeases { world in
            let queue = world.queue
            let again = world.jobs[..<10].map { job in
                queue.settled(
                    job, other: [0: .retried(.named("InternalServerError"))],
                    again: [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)])
            }
            try await world.expectLookUps("jobs that are sent again") {
                let written = try await queue.worker.endJobs(again, workerID: 1)
                #expect(written.keys.count == 10)
            }
            let rest = world.jobs[10...].map { queue.settled($0) }
            try await world.expectLookUps("jobs that end") {
                let written = try await queue.worker.endJobs(rest, workerID: 1)
                #expect(written.keys.count == 10)
            }
            try await world.expectLookUps("lost jobs") {
                let written = try await queue.worker.endJobs(rest, workerID: 1)
                #expect(written.keys.isEmpty)
            }
        }
    }

    @Test func `renewals and flushes find each lease by its key`() async throws {
        try await withDeadLeases { world in
            let worker = world.queue.worker
            let keys = world.jobs.map(\.key)
            try await world.expectLookUps("flush") {
                let kept = try await worker.flush(world.progress, workerID: 1, lease: .seconds(15), number: 1)
                #expect(kept.keys.count == keys.count)
            }
            try await world.expectLookUps("renew") {
                let kept = try await worker.renew(keys, workerID: 1, lease: .seconds(15))
                #expect(kept.keys.count == keys.count)
            }
            try await world.expectLookUps("lost leases") {
                let kept = try await worker.renew(keys, workerID: 2, lease: .seconds(15))
                #expect(kept.keys.isEmpty)
            }
        }
    }

    @Test func `jobs that are given back or set aside are found by their keys`() async throws {
        try await withDeadLeases { world in
            let worker = world.queue.worker
            let back = world.progress.map { YieldedLease(progress: $0) }
            try await world.expectLookUps("set aside") {
                let answer = try await worker.setAside(back[0], because: "x", workerID: 1)
                #expect(answer == .triedAgain)
            }
            try await world.expectLookUps("yield") {
                let written = try await worker.yield(Array(back[1...]), workerID: 1)
                #expect(written.keys.count == back.count - 1)
            }
            try await world.expectLookUps("lost leases") {
                let written = try await worker.yield(back, workerID: 1)
                #expect(written.keys.isEmpty)
            }
        }
    }

    @Test func `a worker's unknown leases are searched for once`() async throws {
        try await withDeadLeases { world in
            let read = try await world.pagesRead {
                let unknown = try await world.queue.worker.unknownLeases(workerID: 1, known: [])
                #expect(unknown.count == world.jobs.count)
            }
            #expect(read < world.pages * 3 / 2, "\(read) of \(world.pages) pages")
        }
    }
}
