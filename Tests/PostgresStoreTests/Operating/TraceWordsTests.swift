import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `The trace of a notification` {
    // MARK: Which attempts and which sends

    /// What is made in a database with a lower number has lower numbers than what came with the tenant.
    @Test(arguments: [7, 0])
    func `goes on to the end where jobs have lower numbers than those before them`(database number: Int) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let root = try await send(to: 1...3, queue)
            let device = Int64(try await queue.number("select id from pushq.device where token = int8send(2)"))
            try await queue.run(
                """
                update pushq.body set job_id = job_id + (\(number)::bigint << 50);
                update pushq.job set id = id + (\(number)::bigint << 50)
                """)
            for round in 1...3 {
                let job = try #require(try await queue.claim(lane: .normal).first)
                let place = try #require(job.deviceIDs.firstIndex(of: device))
                let again = SettledJob.Again(deviceID: device, delay: .zero, attempts: round < 3 ? 0 : 1, losses: 0)
                let reason = round < 3 ? Reason.givenBack : Reason.named("ServiceUnavailable")
                _ = try await queue.worker.endJobs(
                    [queue.settled(job, other: [place: .retried(reason)], again: [again])], workerID: 1)
            }
            let failed = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(failed, other: [0: .failed(Reason.named("ServiceUnavailable"))])], workerID: 1)
            try await queue.run("select pushq.retry_failed('\(QueueFixture.name)', \(failed.key.jobID))")
            let last = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(last)], workerID: 1)
            let told = try await trace(token(2), root: root, queue).compactMap { step in
                step.attempt.map { "\($0) \(step.what.prefix(16))" }
            }
            #expect(
                told == [
                    "1 a worker gave it", "1 a worker gave it", "1 refused for now:", "2 failed, its atte",
                    "1 APNs accepted it",
                ])
        }
    }

    @Test func `finds what a device was sent behind newer campaigns that were not for it, and says what it left out`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let root = try await send(to: 1...1, queue)
            for job in try await queue.claim(lane: .normal) {
                _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            }
            for number in 1...10 {
                try await queue.fanOut(
                    try await queue.startCampaign(
                        key: "k\(number)", options: ", tokens => array[encode(int8send(2), 'hex')]"))
            }
            let cut = "earlier campaigns and sends were left out: raise the limit, or give the number of a send"
            var steps = try await trace(token(1), queue)
            #expect(steps.contains { $0.rootID == root && $0.what == "APNs accepted it" })
            #expect(Set(steps.compactMap(\.campaignKey)).count == 10)
            #expect(steps.last?.what != cut, "there is nothing else")
            // One more of either than the limit.
            try await queue.fanOut(
                try await queue.startCampaign(key: "k11", options: ", tokens => array[encode(int8send(2), 'hex')]"))
            steps = try await trace(token(1), queue)
            #expect(steps.contains { $0.rootID == root })
            #expect(Set(steps.compactMap(\.campaignKey)).count == 10)
            #expect(steps.last?.what == cut && steps.last?.at == nil && steps.last?.deviceID == nil)
            try await queue.run("delete from pushq.campaign")
            for _ in 1...10 { _ = try await send(to: 1...1, queue) }
            steps = try await trace(token(1), queue)
            #expect(Set(steps.compactMap(\.rootID)).count == 10 && !steps.contains { $0.rootID == root })
            #expect(steps.last?.what == cut)
        }
    }

    @Test func `takes what the tenant was sent in this database as newer than what it brought along`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for number in 1...12 {
                _ = try await send(to: 1...1, queue)
                _ = try await queue.startCampaign(key: "k\(number)")
            }
            try await queue.run(
                """
                update pushq.body set root_id = root_id + (7::bigint << 50), job_id = job_id + (7::bigint << 50);
                update pushq.job set id = id + (7::bigint << 50);
                update pushq.campaign set id = id + (7::bigint << 50)
                """)
            let root = try await send(to: 1...1, queue)
            let campaign = try await queue.startCampaign(key: "here")
            let roots = try await trace(token(1), queue).compactMap(\.rootID)
            #expect(Set(roots).isSuperset(of: [root, campaign]))
            #expect(roots.last == campaign, "the newest is the last")
        }
    }
}
