import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Failed recipients` {
    private static let unavailable = Reason.named("ServiceUnavailable")
    private static let tooMany = Reason.named("TooManyRequests")

    /// Sends a campaign to 20 devices in one job, of which three fail.
    private func fail(in queue: QueueFixture) async throws -> (campaign: Int64, job: ClaimedJob) {
        let campaign = try await queue.startCampaign()
        try await queue.fanOut(campaign)
        let job = try #require(try await queue.claim().first)
        let outcomes: [Int: Outcome] = [
            3: .failed(Self.unavailable), 7: .failed(Self.tooMany), 9: .failed(Self.unavailable),
            11: .rejected(.unregistered),
        ]
        _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes)], workerID: 1)
        return (campaign, job)
    }

    /// Returns the campaign's counts by outcome.
    private func counts(_ queue: QueueFixture) async throws -> [Int] {
        let row = try await queue.connection.execute(
            Statement(
                "counts", "select total, delivered, rejected, failed, retried, waiting from pushq.campaign_progress")
        ).one()
        let counts = [
            row.count("total"), row.count("delivered"), row.count("rejected"), row.count("failed"),
            row.count("retried"), row.count("waiting"),
        ]
        #expect(counts[0] == counts[1] + counts[2] + counts[3] + counts[5])
        return counts
    }

    @Test func `are listed with their last reasons`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (campaign, job) = try await fail(in: queue)
            let listed = try #require(
                try await queue.connection.failedJobs(ofQueue: QueueFixture.name, limit: 10).first)
            #expect(listed.id == job.key.jobID)
            #expect(listed.rootID == campaign)
            #expect(listed.campaignKey == "k")
            #expect(listed.failedCount == 3)
            #expect(listed.reasons.map(\.reason) == [Self.unavailable, Self.tooMany])
            #expect(listed.reasons.map(\.count) == [2, 1])
        }
    }

    @Test(arguments: [
        ("now() - interval '1 second'", "has passed"), ("'infinity'", "is infinite"),
        ("'294276-12-31'", "is after the year 9999"),
    ])
    func `are sent to again until a time that lies ahead and can be written alone`(end: String, problem: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (_, job) = try await fail(in: queue)
            for call in [
                "retry_failed('\(QueueFixture.name)', \(job.key.jobID)",
                "retry_failed_campaign('\(QueueFixture.name)', 'k'",
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run("select pushq.\(call), send_by => \(end))")
                }
                #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
            }
        }
    }

    @Test func `are found by campaign, reason and time, and page by page`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (_, job) = try await fail(in: queue)
            let list = { (adjust: (inout JobFilter) -> Void, earlier: Int64?) in
                var filter = JobFilter()
                adjust(&filter)
                return try await queue.connection.failedJobs(
                    ofQueue: QueueFixture.name, filter, earlier: earlier, limit: 10
                ).map(\.id)
            }
            let ended = try #require(
                try await queue.connection.failedJobs(ofQueue: QueueFixture.name, limit: 1).first?.endedAt)
            let id = job.key.jobID
            #expect(try await list({ $0.campaign = "k" }, nil) == [id])
            await #expect(throws: PostgresError.self) { _ = try await list({ $0.campaign = "other" }, nil) }
            #expect(try await list({ $0.reason = Self.tooMany }, nil) == [id])
            // A recipient was rejected with this reason, but none failed.
            #expect(try await list({ $0.reason = .unregistered }, nil).isEmpty)
            #expect(try await list({ $0.since = ended.addingTimeInterval(-1) }, nil) == [id])
            #expect(try await list({ $0.since = ended.addingTimeInterval(1) }, nil).isEmpty)
            #expect(try await list({ $0.until = ended.addingTimeInterval(1) }, nil) == [id])
            #expect(try await list({ $0.until = ended.addingTimeInterval(-1) }, nil).isEmpty)
            #expect(try await list({ _ in }, id + 1) == [id])
            #expect(try await list({ _ in }, id).isEmpty)
        }
    }

    @Test func `that are sent to again by hand are in the audit`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (_, job) = try await fail(in: queue)
            #expect(try await queue.connection.retryFailed(ofJob: job.key.jobID, inQueue: QueueFixture.name) == 3)
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 0)
            let entries = try await queue.connection.auditEntries(of: "acme", since: nil, limit: 100)
                .filter { $0.action == "sent again" }
            #expect(entries.map(\.object) == ["campaign"], "once, since nothing was left the second time")
            #expect(entries.first?.name == "\(QueueFixture.name) k")
            #expect(entries.first?.changes == "job: - → \(job.key.jobID), recipients: - → 3")
        }
    }

    @Test func `of a campaign are sent to again, exactly they, with the same root and fresh attempts`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (campaign, job) = try await fail(in: queue)
            #expect(try await counts(queue) == [20, 16, 1, 3, 0, 0])
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 3)
            #expect(try await counts(queue) == [20, 16, 1, 0, 3, 3])

            let again = try #require(try await queue.claim().first)
            #expect(again.deviceIDs == [3, 7, 9].map { job.deviceIDs[$0] })
            #expect(again.rootID == campaign, "the apns-id derives from it")
            #expect(again.attempt == 1)
            _ = try await queue.worker.endJobs(
                [queue.settled(again, other: [1: .failed(Self.tooMany)])], workerID: 1)
            #expect(try await counts(queue) == [20, 18, 1, 1, 3, 0])

            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 1)
            #expect(try await counts(queue) == [20, 18, 1, 0, 4, 1])
            let refusals = try await queue.connection.refusals(ofRoot: campaign, inQueue: QueueFixture.name)
            #expect(refusals == ["Unregistered": 1])
            let progress = try #require(
                try await queue.connection.progress(ofRoot: campaign, inQueue: QueueFixture.name))
            #expect(progress.tally.failed == 0 && progress.tally.retried == 4)
        }
    }

    /// The phone may show such a push already: it does not end as one that was surely not sent.
    @Test func `keep the doubt about an answer that was lost before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let other = [1: Outcome.failed(Self.unavailable), 2: .failed(Self.unavailable), 3: .failed(Self.tooMany)]
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: other, losses: [0, 0, 3, 1])], workerID: 1)
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 3)
            let again = try await queue.claim().sorted { $0.losses < $1.losses }
            #expect(again.map(\.deviceIDs) == [[job.deviceIDs[1]], Array(job.deviceIDs[2...])])
            #expect(again.map(\.losses) == [0, 1])
        }
    }

    @Test func `are taken once, whoever asks how often and at the same time`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 20)
            let (_, job) = try await fail(in: queue)
            var calls: [Task<Int, any Error>] = []
            for _ in 1...4 {
                let connection = try await database.connect()
                calls.append(
                    Task {
                        _ = actor
                        return try await connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name)
                    })
            }
            var taken: [Int] = []
            for call in calls { taken.append(try await call.value) }
            #expect(taken.sorted() == [0, 0, 0, 3])
            #expect(try await queue.connection.retryFailed(ofJob: job.key.jobID, inQueue: QueueFixture.name) == 0)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect(try await queue.connection.failedJobs(ofQueue: nil, limit: 10).isEmpty)
            #expect(try await counts(queue) == [20, 16, 1, 0, 3, 3])
        }
    }

    @Test func `wait where the campaign is paused`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            _ = try await fail(in: queue)
            // The campaign was paused while some recipients waited.
            try await queue.run("update pushq.campaign set paused_at = now(); update pushq.fan_out set paused = true")
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 3)
            #expect(try await queue.claim().isEmpty)
            #expect(try await queue.connection.order(.resume(sendBy: nil), campaign: "k", ofQueue: QueueFixture.name))
            #expect(try await queue.claim().first?.deviceIDs.count == 3)
        }
    }

    @Test(arguments: [
        ("update pushq.campaign set cancelled_at = now()", "k", "campaign “k” was cancelled"),
        ("update pushq.message set expiration = 1000", "k", "the message expired at"),
        ("", "nothing", "there is no campaign “nothing”"),
    ])
    func `are not taken where that would send nothing`(change: String, key: String, refusal: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            _ = try await fail(in: queue)
            if !change.isEmpty { try await queue.run(change) }
            await #expect {
                try await queue.connection.retryFailed(ofCampaign: key, inQueue: QueueFixture.name)
            } throws: { error in
                "\(error)".contains(refusal)
            }
            #expect(try await queue.connection.failedJobs(ofQueue: nil, limit: 10).count == 1)
        }
    }

    @Test func `are not sent to again without a job`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            await #expect(
                throws: PostgresError.raised(
                    message: "the job is null",
                    hint: "list jobs with failed recipients with: pushq-admin job list --failed")
            ) {
                try await queue.run("select pushq.retry_failed('\(QueueFixture.name)', null)")
            }
        }
    }
}
