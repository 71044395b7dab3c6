import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Undoing deactivations` {
    /// Starts a campaign. APNs answers with `reason` for the first `devices` recipients and accepts all others. Bad
    /// tokens are judged at once.
    @discardableResult
    private func campaign(_ key: String, _ reason: Reason, devices: Int, in queue: QueueFixture) async throws -> Int64 {
        let root = try await queue.startCampaign(key: key)
        try await queue.fanOut(root)
        for job in try await queue.claim() {
            let active = job.deviceIDs.indices.filter { job.token(of: $0) != nil }
            let dead = active.prefix(devices)
            var outcomes: [Int: Outcome] = [:]
            for ordinal in job.deviceIDs.indices where !active.contains(ordinal) { outcomes[ordinal] = .suppressed }
            for ordinal in dead { outcomes[ordinal] = .rejected(reason) }
            let reports = dead.map {
                SettledJob.DeviceReport(deviceID: job.deviceIDs[$0], reason: reason, reportedAt: nil, sentAt: .now)
            }
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
        }
        if reason.row.action == .suspect { _ = try await queue.worker.judgeSuspects() }
        return root
    }

    private func undo(
        _ queue: QueueFixture, reason: Reason? = nil, root: Int64? = nil, since: String? = nil, until: String? = nil,
        counts: Bool = false, step: Int = 5000
    ) async throws -> Reactivation {
        var filter = DeactivationFilter()
        (filter.reason, filter.root) = (reason, root)
        let time = Statement("time", "select $time::timestamptz as time")
        if let since {
            filter.since = try await queue.connection.execute(time, ["time": .text(since)]).one().time("time")
        }
        if let until {
            filter.until = try await queue.connection.execute(time, ["time": .text(until)]).one().time("time")
        }
        return try await queue.connection.reactivateDevices(
            inQueue: QueueFixture.name, filter, counts: counts, step: step)
    }

    private func inactive(_ queue: QueueFixture) async throws -> Int {
        try await queue.number("select count(*) from pushq.device where not active")
    }

    @Test func `keeps for each what was answered to which campaign and job, and when`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let root = try await campaign("one", .badDeviceToken, devices: 10, in: queue)
            let entries = try await queue.connection.feedback(ofQueue: QueueFixture.name, limit: 100)
            #expect(entries.count == 10)
            #expect(entries.allSatisfy { $0.verdict == "deactivated" && $0.rootID == root && $0.campaignKey == "one" })
            let job = try await queue.number("select job_id from pushq.result")
            #expect(entries.allSatisfy { $0.jobID == Int64(job) && $0.reason == .badDeviceToken })
        }
    }

    @Test func `is done by campaign, and by reason, in steps, and counted before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let first = try await campaign("one", .badDeviceToken, devices: 10, in: queue)
            try await campaign("two", .badDeviceToken, devices: 7, in: queue)
            try await campaign("three", .unregistered, devices: 5, in: queue)
            #expect(try await inactive(queue) == 22)

            let counted = try await undo(queue, root: first, counts: true)
            #expect(counted == Reactivation(meant: 10, inForce: 10, reactivated: 0))
            #expect(try await inactive(queue) == 22)
            #expect(
                try await undo(queue, root: first, step: 3) == Reactivation(meant: 10, inForce: 10, reactivated: 10))
            #expect(try await inactive(queue) == 12)
            #expect(try await queue.number("select count(*) from pushq.feedback where verdict = 'undone'") == 10)
            #expect(try await undo(queue, root: first) == Reactivation(), "a second time finds nothing")
            #expect(try await undo(queue, reason: .named("ExpiredToken")) == Reactivation())
            #expect(try await undo(queue, reason: .unregistered).reactivated == 5)
            #expect(try await inactive(queue) == 7)
        }
    }

    @Test func `is done by the time of the answer`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            try await campaign("one", .unregistered, devices: 10, in: queue)
            try await queue.run("update pushq.feedback set recorded_at = '2001-02-03 04:05Z'")
            // The day of a report is the day on which it was written.
            try await queue.run(
                """
                create table pushq.feedback_20010203 partition of pushq.feedback for values from ('2001-02-03') to ('2001-02-04');
                update pushq.feedback set day = '2001-02-03'
                """)
            try await campaign("two", .unregistered, devices: 7, in: queue)
            #expect(try await undo(queue, since: "2001-02-03 04:06Z", until: "2001-02-03 05:00Z") == Reactivation())
            #expect(try await undo(queue, until: "2001-02-03 04:04Z") == Reactivation())
            #expect(try await undo(queue, since: "2001-02-03 04:06Z", counts: true).inForce == 7)
            #expect(try await undo(queue, since: "2001-02-03 04:05Z", until: "2001-02-03 04:05Z").reactivated == 10)
            #expect(try await inactive(queue) == 7)
        }
    }

    @Test func `leaves devices alone that something else keeps inactive since`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            let root = try await campaign("one", .badDeviceToken, devices: 10, in: queue)
            let ids = try await queue.connection.execute(
                Statement("ids", "select id, token from pushq.device where not active order by id")
            ).map { (id: $0.int8("id"), token: try? DeviceToken(bytes: $0.bytes("token"))) }
            let tokens = ids.compactMap(\.token)
            // The app has registered the device again, and APNs has reported it as dead since.
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', '\(tokens[0].hex)')")
            try await campaign("two", .unregistered, devices: 1, in: queue)
            #expect(try await inactive(queue) == 10)
            // The device's user has logged out.
            try await queue.run("select pushq.unregister_device('\(QueueFixture.name)', '\(tokens[1].hex)')")
            // The feedback service also reports the device as dead.
            try await queue.worker.keepFeedback(
                of: queue.id, readWith: [], tokens: [tokens[2].bytes], times: [4_000_000_000])
            _ = try await queue.worker.actOnFeedback()
            // The device is already active again.
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', '\(tokens[3].hex)')")

            let result = try await undo(queue, root: root)
            #expect(result == Reactivation(meant: 10, inForce: 6, reactivated: 6))
            let left = try await queue.connection.execute(
                Statement("left", "select id from pushq.device where not active order by id")
            ).map { $0.int8("id") }
            #expect(left == ids.prefix(3).map(\.id))
        }
    }

    @Test func `waits for no device that somebody is writing, and finds it the next time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            try await campaign("one", .badDeviceToken, devices: 10, in: queue)
            let producer = try await database.connect()
            try await producer.runScript(
                "begin; select from pushq.device where not active order by id limit 1 for update")
            let result = try await undo(queue, reason: .badDeviceToken)
            #expect(result.reactivated == 9 && result.locked == 1)
            try await producer.runScript("rollback")
            #expect(try await undo(queue, reason: .badDeviceToken).reactivated == 1)
            #expect(try await inactive(queue) == 0)
        }
    }

    @Test func `late is kept, and shown, for as long as any report that is listed that day`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            try await campaign("one", .unregistered, devices: 2, in: queue)
            try await queue.run(
                """
                do $$
                begin
                  while pushq.make_partition(pushq.today() - 29, 0) is not null loop end loop;
                end $$;
                update pushq.feedback set day = day - 29, recorded_at = recorded_at - interval '29 days'
                """)
            #expect(try await undo(queue, reason: .unregistered).reactivated == 2)
            try await queue.upkeep(inDays: 20)
            try await queue.run("select pushq.list_feedback(100)")
            let listed = Statement("listed", "select verdict from pushq.feedback_after($1)")
            let rows = try await queue.connection.execute(listed, [.text("\(QueueFixture.name)")])
            #expect(rows.map { $0.text("verdict") } == ["undone", "undone"])
            let now = Date.now
            let entries = try await queue.connection.feedback(
                ofQueue: QueueFixture.name, since: now - 30 * 86400, until: now - 28 * 86400, limit: 100)
            #expect(entries.map(\.verdict) == ["undone", "undone"])
        }
    }

    @Test func `keeps reports that are on their way from deactivating the devices again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 400)
            try await campaign("one", .unregistered, devices: 1, in: queue)
            let id = try await queue.number("select id from pushq.device where not active")
            let sentAt = ContinuousClock.now
            try await queue.fanOut(try await queue.startCampaign(key: "two"))
            let job = try #require(try await queue.claim().first)
            _ = try await undo(queue, reason: .unregistered)
            let report = SettledJob.DeviceReport(
                deviceID: Int64(id), reason: .unregistered, reportedAt: nil, sentAt: sentAt)
            _ = try await queue.worker.endJobs([queue.settled(job, reports: [report])], workerID: 1)
            #expect(try await inactive(queue) == 0)
        }
    }
}
