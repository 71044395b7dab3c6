import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A job whose end is refused` {
    /// Claims the only job.
    private func claim(_ queue: QueueFixture, workerID: Int64 = 1) async throws -> ClaimedJob {
        try await queue.run("update pushq.job set run_at = now() where run_at < 'infinity'")
        return try #require(try await queue.claim(workerID: workerID).first)
    }

    private func giveBack(
        _ job: ClaimedJob, outcomes: [UInt8] = [1, 1, 0], in queue: QueueFixture, workerID: Int64 = 1
    ) async throws -> SetAsideAnswer {
        let progress = LeaseProgress(key: job.key, watermark: 2, outcomes: outcomes)
        return try await queue.worker.setAside(
            YieldedLease(progress: progress), because: "too large", workerID: workerID)
    }

    private func withJob(_ body: @escaping @Sendable (TestDatabase, QueueFixture) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            try await body(database, queue)
        }
    }

    @Test func `is tried three times, ever more rarely, and waits for an operator then, with what was answered`()
        async throws
    {
        try await withJob { _, queue in
            var waits: [Int] = []
            for _ in 1...2 {
                #expect(try await giveBack(claim(queue), in: queue) == .triedAgain)
                #expect(try await queue.claim().isEmpty)
                waits.append(try await queue.number("select round(extract(epoch from run_at - now())) from pushq.job"))
            }
            #expect(waits == [10, 40])
            #expect(try await queue.connection.stuckJobs(ofQueue: nil, limit: 10).isEmpty)
            let job = try await claim(queue)
            #expect(try await giveBack(job, in: queue) == .setAside)
            #expect(try await queue.claim().isEmpty)
            let listed = try #require(try await queue.connection.stuckJobs(ofQueue: QueueFixture.name, limit: 10).first)
            #expect(listed.id == job.key.jobID && listed.campaignKey == "k" && listed.tries == 3)
            #expect(listed.problem == "too large" && listed.recipientCount == 3)
            #expect(try await queue.connection.jobs(ofQueue: nil, limit: 10).map(\.state) == ["set aside"])
            let standstill = try await queue.connection.standstill(ofRoot: job.rootID, inQueue: QueueFixture.name)
            #expect(standstill != nil)

            #expect(try await queue.connection.resumeJobs(ofQueue: QueueFixture.name, only: 1) == 0)
            #expect(try await queue.connection.resumeJobs(ofQueue: QueueFixture.name, only: nil) == 1)
            let again = try #require(try await queue.claim().first)
            #expect(again.outcomes == [1, 1, 0])
            #expect(again.losses == 0 && again.attempt == 1)
            _ = try await queue.worker.endJobs([queue.settled(again)], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.stuck_job") == 0)
        }
    }

    @Test func `is not resumed with its campaign, and ends with it if that is cancelled`() async throws {
        try await withJob { _, queue in
            for _ in 1...3 { _ = try await giveBack(claim(queue), in: queue) }
            #expect(try await queue.connection.order(.pause, campaign: "k", ofQueue: QueueFixture.name))
            #expect(try await queue.connection.order(.resume(sendBy: nil), campaign: "k", ofQueue: QueueFixture.name))
            #expect(try await queue.claim().isEmpty)
            #expect(try await queue.connection.order(.cancel, campaign: "k", ofQueue: QueueFixture.name))
            let job = try #require(try await queue.claim().first)
            #expect(job.isCancelled)
            #expect(try await giveBack(job, in: queue) == .setAside, "it is still refused")
        }
    }

    @Test func `is not touched by a worker that has lost it, and not waited for where it is locked`() async throws {
        try await withJob { database, queue in
            let job = try await claim(queue)
            #expect(try await giveBack(job, in: queue, workerID: 2) == .lost)
            let other = try await database.connect()
            try await other.runScript("begin; select from pushq.lease for update")
            #expect(try await giveBack(job, in: queue) == .locked)
            try await other.runScript("rollback")
            #expect(try await queue.number("select count(*) from pushq.stuck_job") == 0)
            #expect(try await giveBack(job, in: queue) == .triedAgain)
            #expect(try await giveBack(job, in: queue) == .lost)
        }
    }

    /// A renewal that commits after the statement has taken its snapshot moves the lease to another place, which the
    /// statement does not see. A trigger holds the statement in between.
    @Test func `is not called lost if its lease is renewed while it is given back`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try await claim(queue)
            try await queue.run(
                """
                create function public.wait() returns trigger language plpgsql as
                  'begin perform pg_advisory_xact_lock(1); return null; end';
                create trigger wait before delete on pushq.lease execute function public.wait()
                """)
            let other = try await database.connect()
            try await other.runScript(
                "begin; select pg_advisory_xact_lock(1); update pushq.lease set deadline = now() + interval '1 hour'")
            let answer = Task {
                _ = actor  // where the connection lives
                return try await giveBack(job, in: queue)
            }
            try await database.waitUntilBlocked("the job is being given back", on: queue.worker)
            try await other.runScript("commit")
            #expect(try await answer.value == .locked)
            #expect(try await queue.number("select count(*) from pushq.stuck_job") == 0, "no refusal is counted")
            #expect(try await giveBack(job, in: queue) == .triedAgain)
        }
    }

    @Test func `is forgotten as refused when it has ended after all`() async throws {
        try await withJob { _, queue in
            #expect(try await giveBack(claim(queue), in: queue) == .triedAgain)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.stuck_job") == 1)
            _ = try await queue.worker.endJobs([queue.settled(claim(queue))], workerID: 1)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.stuck_job") == 0)
        }
    }
}
