import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Tests `pushq.status`, which tells a producer about what it has started.
@Suite(.timeLimit(.minutes(10))) struct `The status of what was started` {
    private static let name = "\(QueueFixture.name)"
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    /// The status in one line, such as `send running: 2 total, 2 waiting`; nil if there is none.
    private func status(_ id: Int, _ queue: QueueFixture) async throws -> String? {
        let statement = Statement(
            "status",
            #"""
            select format('%s %s: %s', s.kind, s.state, (
                     select string_agg(n.value || ' ' || n.key, ', ' order by n.place)
                     from json_each_text(row_to_json(s)) with ordinality n(key, value, place)
                     where n.place > 2 and n.value <> '0')) as line
            from pushq.status('\#(Self.name)', $id) s
            """#)
        return try await queue.connection.execute(statement, ["id": .int8(Int64(id))]).first?.text("line")
    }

    private func send(_ arguments: String, _ queue: QueueFixture) async throws -> Int {
        try await queue.number("select pushq.send('\(Self.name)', \(Self.payload), \(arguments))")
    }

    @Test func `of a send counts its recipients from the start to the last answer`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let id = try await send("tokens => array['01', '02', '03']", queue)
            #expect(try await status(id, queue) == "send running: 3 total, 3 waiting")
            let job = try #require(try await queue.claim(lane: .normal).first)
            #expect(try await status(id, queue) == "send running: 3 total, 3 waiting")
            let failed = queue.settled(job, other: [1: .failed(.otherTransient), 2: .rejected(.unregistered)])
            _ = try await queue.worker.endJobs([failed], workerID: 1)
            #expect(
                try await status(id, queue) == "send finished: 3 total, 1 delivered, 1 rejected, 1 failed")
            _ = try await queue.number("select pushq.retry_failed('\(Self.name)', \(job.key.jobID))")
            #expect(
                try await status(id, queue) == "send running: 3 total, 1 waiting, 1 delivered, 1 rejected, 1 retried")
        }
    }

    /// While a queue is paused, a job may wait for hours whose other recipients got the push.
    @Test func `of a send counts what is known of a job that has not ended`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let id = try await send("tokens => array['01', '02', '03']", queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            let outcomes = [Outcome.delivered.rawValue, Outcome.rejected(.unregistered).rawValue, 0]
            let back = YieldedLease(progress: LeaseProgress(key: job.key, watermark: 2, outcomes: outcomes))
            _ = try await queue.worker.yield([back], workerID: 1)
            let known = "send running: 3 total, 1 waiting, 1 delivered, 1 rejected"
            #expect(try await status(id, queue) == known)
            #expect(try await queue.claim(lane: .normal).count == 1)
            #expect(try await status(id, queue) == known)
        }
    }

    @Test func `of a send that reaches nobody says why, and of one for later that it waits`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let nobody = try #require(try await status(try await send("user_key => 'anna'", queue), queue))
            #expect(nobody.hasPrefix("send finished: ") && nobody.hasSuffix(" why_nobody"), "\(nobody)")
            #expect(nobody.contains("anna") || nobody.contains("user"), "\(nobody)")
            let later = try await send("user_key => 'anna', run_at => now() + interval '1 hour'", queue)
            #expect(try await status(later, queue)?.hasPrefix("send waiting: ") == true)
            #expect(try await queue.number("select stopped from pushq.cancel('\(Self.name)', \(later))") >= 0)
            #expect(try await status(later, queue)?.hasPrefix("send cancelled: ") == true)
        }
    }

    @Test func `of a campaign follows its state, and leaves out its holdout`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1000)
            let id = Int(try await queue.startCampaign(options: ", holdout => 0.5"))
            #expect(try await status(id, queue)?.hasPrefix("campaign running") == true)
            try await queue.run("select pushq.pause_campaign('\(Self.name)', 'k')")
            #expect(try await status(id, queue)?.hasPrefix("campaign paused") == true)
            try await queue.run("select pushq.resume_campaign('\(Self.name)', 'k')")
            try await queue.fanOut(Int64(id))
            let total = try await queue.number("select made from pushq.fan_out")
            #expect(total > 300 && total < 700)
            #expect(try await status(id, queue) == "campaign running: \(total) total, \(total) waiting")
            _ = try await queue.worker.endJobs(try await queue.claim().map { queue.settled($0) }, workerID: 1)
            #expect(try await status(id, queue) == "campaign finished: \(total) total, \(total) delivered")
            let other = Int(try await queue.startCampaign(key: "other"))
            try await queue.run("select pushq.cancel_campaign('\(Self.name)', 'other')")
            #expect(try await status(other, queue)?.hasPrefix("campaign cancelled") == true)
        }
    }

    @Test func `of a campaign for later is that it is scheduled, until it begins or is stopped`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let id = Int(
                try await queue.startCampaign(options: ", start_at => '2126-12-09T10:00:00Z', send_by => '2126-12-10'"))
            #expect(try await status(id, queue)?.hasPrefix("campaign scheduled") == true)
            let store = queue.connection
            let summary = try #require(try await store.campaigns(ofQueue: nil, state: .scheduled, limit: 9).first)
            #expect(summary.startsAt.formatted(.iso8601) == "2126-12-09T10:00:00Z")
            #expect(summary.createdAt < .now)
            #expect(try await store.campaigns(ofQueue: nil, state: .running, limit: 9).isEmpty)
            try await queue.run("select pushq.pause_campaign('\(Self.name)', 'k')")
            #expect(try await status(id, queue)?.hasPrefix("campaign paused") == true)
            try await queue.run("select pushq.resume_campaign('\(Self.name)', 'k')")
            try await queue.run("update pushq.fan_out set start_at = now() - interval '1 second'")
            #expect(try await status(id, queue)?.hasPrefix("campaign running") == true)
            let begun = try #require(try await store.campaign("k", ofQueue: QueueFixture.name))
            #expect(begun.startsAt == begun.createdAt, "not before it was started")
        }
    }

    @Test func `is of nothing for a number that is none`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            #expect(try await status(1, queue) == nil)
            // An ID in this queue that is not a root but a device.
            #expect(try await status(try await queue.number("select id from pushq.device"), queue) == nil)
        }
    }
}
