import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// Recipients continue in another job while their job still waits for the answers to others.
@Suite struct `Handing recipients over` {
    /// A held job of a campaign to five devices, of which the first two are in flight.
    private struct World {
        let queue: QueueFixture
        let job: ClaimedJob
        let givenBack = Outcome.retried(.givenBack)

        init(_ database: TestDatabase) async throws {
            queue = try await QueueFixture(database, devices: 5)
            try await queue.fanOut(try await queue.startCampaign())
            job = try #require(try await queue.claim().first)
        }

        var recipients: [ContinuingRecipient] {
            (2..<5).map {
                ContinuingRecipient(
                    ordinal: $0, deviceID: job.deviceIDs[$0], delay: .zero, attempts: 0, losses: 0)
            }
        }

        func handOver(number: Int64 = 1) async throws -> KeptLeases {
            let outcomes = [UInt8](repeating: 0, count: 2) + [UInt8](repeating: givenBack.rawValue, count: 3)
            let handOver = HandOver(
                progress: LeaseProgress(key: job.key, watermark: 5, outcomes: outcomes), recipients: recipients)
            return try await queue.worker.handOver([handOver], workerID: 1, lease: .seconds(15), number: number)
        }

        /// The end of the job by a worker that does not know that the recipients have another job.
        var endInDoubt: SettledJob {
            queue.settled(job, other: [2: givenBack, 3: givenBack, 4: givenBack], again: recipients)
        }

        var counts: [Int] {
            get async throws {
                let row = try await queue.connection.execute(
                    Statement("counts", "select total, delivered, waiting from pushq.campaign_progress")
                ).one()
                return ["total", "delivered", "waiting"].map { Int(row.int8($0)) }
            }
        }
    }

    @Test func `lets another worker send to them at once, and counts everybody once`() async throws {
        try await withDatabase { _, database in
            let world = try await World(database)
            let kept = try await world.handOver()
            #expect(kept.keys == [world.job.key])
            #expect(try await world.counts == [5, 0, 5])
            let other = try #require(try await world.queue.claim(workerID: 2).first)
            #expect(other.deviceIDs == Array(world.job.deviceIDs[2...]))
            #expect(other.attempt == 1 && other.losses == 0 && other.outcomes.allSatisfy { $0 == 0 })
            _ = try await world.queue.worker.endJobs([world.queue.settled(other)], workerID: 2)
            #expect(try await world.counts == [5, 3, 2])
            let givenBack = world.givenBack
            _ = try await world.queue.worker.endJobs(
                [world.queue.settled(world.job, other: [2: givenBack, 3: givenBack, 4: givenBack])], workerID: 1)
            #expect(try await world.counts == [5, 5, 0])
            #expect(try await world.queue.number("select count(*) from pushq.campaign_progress where finished") == 1)
        }
    }

    @Test func `keeps their place in the queue, before what came later`() async throws {
        try await withDatabase { _, database in
            let world = try await World(database)
            _ = try await world.handOver()
            #expect(
                try await world.queue.number(
                    "select count(*) from pushq.job j join pushq.lease l on l.run_at = j.run_at and l.lane = j.lane")
                    == 1)
        }
    }

    @Test(arguments: ["again", "end", "set aside", "late"])
    func `creates one job, whatever the worker does without knowing of it`(_ what: String) async throws {
        try await withDatabase { _, database in
            let world = try await World(database)
            _ = try await world.handOver(number: 7)
            let zeros = LeaseProgress(key: world.job.key, watermark: 5, outcomes: [1, 1, 0, 0, 0])
            switch what {
            case "again":
                #expect(try await world.handOver(number: 8).keys == [world.job.key])
                _ = try await world.queue.worker.endJobs([world.endInDoubt], workerID: 1)
            case "end": _ = try await world.queue.worker.endJobs([world.endInDoubt], workerID: 1)
            case "set aside":
                _ = try await world.queue.worker.setAside(
                    YieldedLease(progress: zeros), because: "test", workerID: 1)
                #expect(
                    try await world.queue.number(
                        "select get_byte(outcomes, 2) from pushq.job where id = \(world.job.key.jobID)")
                        == Int(world.givenBack.rawValue))
            default:
                // A flush of before, which PostgreSQL carries out after the hand-over.
                let kept = try await world.queue.worker.flush([zeros], workerID: 1, lease: .seconds(15), number: 6)
                #expect(kept.keys.isEmpty && kept.locked == [world.job.key])
                _ = try await world.queue.worker.endJobs([world.endInDoubt], workerID: 1)
            }
            #expect(
                try await world.queue.number(
                    "select count(*) from pushq.job where id <> \(world.job.key.jobID) and recipient_count = 3") == 1)
            #expect(
                try await world.queue.number("select count(*) from pushq.job where id <> \(world.job.key.jobID)") == 1)
        }
    }

    @Test func `is remembered if the worker is lost`() async throws {
        try await withDatabase { _, database in
            let world = try await World(database)
            _ = try await world.handOver()
            try await world.queue.expireLeases(of: world.job)
            #expect(try await world.queue.worker.rescue(grace: .zero) == 1)
            let jobs = try await world.queue.claim(5, workerID: 2)
            let again = try #require(jobs.first { $0.key.jobID == world.job.key.jobID })
            #expect(again.outcomes == [0, 0] + [UInt8](repeating: world.givenBack.rawValue, count: 3))
            #expect(jobs.map(\.deviceIDs.count).sorted() == [3, 5])
        }
    }

    @Test func `does nothing for a lost lease, and skips a locked one`() async throws {
        try await withDatabase { _, database in
            let world = try await World(database)
            let other = try await database.connect()
            try await other.runScript("begin; select from pushq.lease for update")
            let locked = try await world.handOver()
            #expect(locked.keys.isEmpty && locked.locked == [world.job.key])
            try await other.runScript("rollback")
            try await world.queue.expireLeases(of: world.job)
            _ = try await world.queue.worker.rescue(grace: .zero)
            let lost = try await world.handOver()
            #expect(lost.keys.isEmpty && lost.locked.isEmpty)
            #expect(try await world.queue.number("select count(*) from pushq.job") == 1)
        }
    }
}
