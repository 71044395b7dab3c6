import FoundationEssentials
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Tests which messages are sent to a tenant's webhook, and which worker may report the result.
@Suite(.timeLimit(.minutes(10))) struct `The turns of a webhook` {
    private static let lease = Duration.seconds(60)
    private static let keys = MasterKeys(MasterKey(Array(repeating: 7, count: 32))!)

    /// Bytes that begin like a secret sealed under ``keys``.
    private static func sealed(_ end: UInt8) -> [UInt8] { keys.first.name.bytes + [end] }

    private static func report(_ device: Int, _ verdict: String = "deactivated") -> String {
        """
        insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
        select id, \(device), \(Reason.unregistered.code), now(), '\(verdict)' from pushq.queue;
        """
    }

    /// Runs `body` with a queue whose tenant has a webhook.
    private func withWebhook(_ body: @escaping @Sendable (QueueFixture, Int32) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let tenant = Int32(try await queue.number("select id from pushq.tenant"))
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://a.example/", sealed: Self.sealed(1), formerFor: .zero)
            try await body(queue, tenant)
        }
    }

    /// The devices that a message names.
    private func devices(_ turn: WebhookTurn?) -> [String] {
        String(decoding: turn?.message ?? [], as: UTF8.self).matches(of: /"device" ?: ?"(\d+)"/).map {
            String($0.output.1)
        }
    }

    /// Deletes what is past retention three days from now.
    private func runUpkeep(keepingFeedback days: Int, _ queue: QueueFixture) async throws {
        let later = try await queue.connection.execute(Statement("later", "select pushq.today() + 3 as day")).one()
        var retention = Retention()
        retention.feedbackDays = days
        _ = try await queue.connection.maintainPartitions(retention, today: later.date("day"))
    }

    @Test func `bring all reports in their order, a message after the other, and then none`() async throws {
        try await withWebhook { queue, _ in
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 2, opening: Self.keys) == nil)
            try await queue.run((1...5).map { Self.report($0) }.joined())
            #expect(try await queue.worker.listFeedback() == 5)
            for wanted in [["1", "2"], ["3", "4"], ["5"]] {
                let turn = try #require(
                    try await queue.worker.takeWebhook(lease: Self.lease, atMost: 2, opening: Self.keys))
                #expect(devices(turn) == wanted)
                #expect(
                    try await queue.worker.takeWebhook(lease: Self.lease, atMost: 2, opening: Self.keys) == nil,
                    "it is taken")
                #expect(try await !queue.worker.noteAccepted(turn))
            }
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 2, opening: Self.keys) == nil)
        }
    }

    /// What a fast clock writes, after which it is set back by `ahead`.
    @Test(arguments: ["2 minutes", "1 hour", "10 days"]) func `come also when the clock was ahead at the last one`(
        ahead: String
    ) async throws {
        try await withWebhook { queue, _ in
            func setBack() async throws {
                try await queue.run("update pushq.webhook_progress set not_before = not_before + interval '\(ahead)'")
            }
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            try await setBack()
            let first = try #require(
                try await queue.worker.takeWebhook(lease: .seconds(30), atMost: 10, opening: Self.keys))
            _ = try await queue.worker.noteAccepted(first)
            try await setBack()
            try await queue.run(Self.report(2))
            _ = try await queue.worker.listFeedback()
            let second = try #require(
                try await queue.worker.takeWebhook(lease: .seconds(30), atMost: 10, opening: Self.keys))
            #expect(devices(second) == ["2"])
            // The longest pause, and what the fast clock adds to it.
            _ = try await queue.worker.noteFailed(second, problem: "p", pause: .seconds(3600))
            #expect(try await queue.worker.takeWebhook(lease: .seconds(30), atMost: 10, opening: Self.keys) == nil)
            try await setBack()
            let third = try await queue.worker.takeWebhook(lease: .seconds(30), atMost: 10, opening: Self.keys)
            #expect(devices(third) == ["2"])
        }
    }

    @Test func `are in doubt until the receiver has taken a message, and after each failure`() async throws {
        try await withWebhook { queue, tenant in
            func take(evenInDoubt: Bool) async throws -> WebhookTurn? {
                try await queue.worker.takeWebhook(
                    lease: Self.lease, atMost: 1, opening: Self.keys, evenInDoubt: evenInDoubt)
            }
            try await queue.run((1...3).map { Self.report($0) }.joined())
            _ = try await queue.worker.listFeedback()
            #expect(try await take(evenInDoubt: false) == nil)
            let first = try #require(try await take(evenInDoubt: true))
            #expect(first.isInDoubt)
            _ = try await queue.worker.noteAccepted(first)

            let second = try #require(try await take(evenInDoubt: false))
            #expect(!second.isInDoubt && devices(second) == ["2"])
            _ = try await queue.worker.noteFailed(second, problem: "p", pause: .zero)
            #expect(try await take(evenInDoubt: false) == nil)
            let again = try #require(try await take(evenInDoubt: true))
            #expect(again.isInDoubt && devices(again) == ["2"])
            _ = try await queue.worker.noteAccepted(again)

            // The same receiver with another secret is not in doubt. One at another URL has not taken a message yet.
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: nil, sealed: Self.sealed(2), formerFor: .zero)
            let third = try #require(try await take(evenInDoubt: false))
            #expect(!third.isInDoubt && devices(third) == ["3"])
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://b.example/", sealed: nil, formerFor: .zero)
            #expect(try await take(evenInDoubt: false) == nil)
            let moved = try #require(try await take(evenInDoubt: true))
            #expect(moved.isInDoubt && moved.url == "https://b.example/" && devices(moved) == ["3"])
        }
    }

    @Test func `come at once after a failure if the webhook was set again during it`() async throws {
        try await withWebhook { queue, tenant in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            try await queue.run("update pushq.webhook_progress set failures = 10, failing_since = now(), problem = 'p'")
            let late = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys))
            #expect(late.failures == 10)
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://a.example/", sealed: nil, formerFor: .zero)
            #expect(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys) == nil,
                "the same message is under way")
            #expect(try await queue.worker.noteFailed(late, problem: "slow", pause: .seconds(3600)) == 1)
            let next = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys))
            #expect(next.message == late.message && next.failures == 1)
            #expect(try await queue.worker.noteFailed(next, problem: "slow", pause: .seconds(3600)) == 2)
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys) == nil)
        }
    }

    @Test func `repeat the same message until it is taken, also when more has come`() async throws {
        try await withWebhook { queue, _ in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            let first = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys))
            #expect(first.failures == 0)
            #expect(try await queue.worker.noteFailed(first, problem: "p", pause: .zero) == 1)
            try await queue.run(Self.report(2))
            _ = try await queue.worker.listFeedback()
            let again = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys))
            #expect((again.first, again.last) == (first.first, first.last))
            #expect(again.message == first.message && again.failures == 1)
            #expect(try await queue.worker.noteAccepted(again), "it had failed")
            #expect(
                devices(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys)) == ["2"])
        }
    }

    @Test func `say a time that is not ahead, late in a second, too`() async throws {
        try await withWebhook { queue, _ in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            try await queue.run("select pg_sleep(mod(1.6 - extract(epoch from clock_timestamp()) % 1, 1))")
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys))
            #expect(Int(turn.sentAt) <= (try await queue.number("floor(extract(epoch from clock_timestamp()))")))
        }
    }

    @Test func `are left to workers that have the master key of its secret, and of the former one`() async throws {
        try await withWebhook { queue, tenant in
            let other = MasterKeys(MasterKey(Array(repeating: 8, count: 32))!)
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            #expect(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: other) == nil)
            #expect(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: Self.keys) != nil)
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: nil, sealed: other.first.name.bytes + [2], formerFor: .seconds(60))
            #expect(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: other) == nil)
            #expect(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: Self.keys) == nil)
            let both = MasterKeys(Self.keys.first, opening: [other.first])
            #expect(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: both) != nil)
        }
    }

    @Test func `go on while the secret is changed, and nothing is sent twice`() async throws {
        try await withWebhook { queue, tenant in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            for url in [nil, "https://a.example/"] {
                try await queue.connection.setWebhook(
                    ofTenant: tenant, url: url, sealed: Self.sealed(2), formerFor: .zero)
                #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys) == nil)
            }
            _ = try await queue.worker.noteAccepted(turn)
            #expect(
                try await queue.number("select count(*) from pushq.webhook_progress where cursor = \(turn.last)") == 1)
        }
    }

    @Test func `of a webhook that was removed say nothing of the one that was set again`() async throws {
        try await withWebhook { queue, tenant in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            let late = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            try await queue.run("delete from pushq.webhook")
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://b.example/", sealed: Self.sealed(1), formerFor: .zero)
            try await queue.run(Self.report(2))
            _ = try await queue.worker.listFeedback()
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(devices(turn) == ["2"])
            _ = try await queue.worker.noteAccepted(late)
            #expect(try await queue.worker.noteFailed(late, problem: "late", pause: .zero) == nil)
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys) == nil)
        }
    }

    @Test func `are ended by the one who has the last of them`() async throws {
        try await withWebhook { queue, tenant in
            try await queue.run(Self.report(1) + Self.report(2))
            _ = try await queue.worker.listFeedback()
            // A worker was stopped for longer than its lease.
            let late = try #require(try await queue.worker.takeWebhook(lease: .zero, atMost: 1, opening: Self.keys))
            let next = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(next.message == late.message)
            _ = try await queue.worker.noteAccepted(late)
            #expect(try await queue.worker.noteFailed(late, problem: "late", pause: .seconds(9)) == nil)
            let untouched =
                "select count(*) from pushq.webhook_progress where cursor = \(next.first) and failures = 0 and not_before > now()"
            #expect(try await queue.number(untouched) == 1)
            // The same holds for a turn that was under way when the webhook changed: the new receiver gets the message.
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://b.example/", sealed: nil, formerFor: .zero)
            _ = try await queue.worker.noteAccepted(next)
            let moved = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(moved.url == "https://b.example/" && moved.sealed == Self.sealed(1))
            #expect(moved.message == next.message)
            _ = try await queue.worker.noteAccepted(moved)
            #expect(
                devices(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys)) == ["2"])
        }
    }

    @Test func `wait for their time, and pass over reports that are gone`() async throws {
        try await withWebhook { queue, _ in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(try await queue.worker.noteFailed(turn, problem: "p", pause: .seconds(3600)) == 1)
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys) == nil)
            try await queue.run("delete from pushq.feedback; update pushq.webhook_progress set not_before = now();")
            #expect(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys) == nil)
            #expect(
                try await queue.number("select count(*) from pushq.webhook_progress where newest = cursor") == 1)
        }
    }

    /// The receiver was away for longer than reports are kept. Nothing said that it had missed some.
    @Test(arguments: [false, true])
    func `say up to when reports were deleted that were not taken`(isTenantsTime: Bool) async throws {
        try await withWebhook { queue, tenant in
            func lostTo() async throws -> Date? {
                try await queue.connection.webhook(of: "acme")?.webhook?.lostTo
            }
            let feedback = Self.report(1) + Self.report(2)
            try await queue.run(feedback)
            _ = try await queue.worker.listFeedback()
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(try await !queue.worker.noteAccepted(turn))
            if isTenantsTime {
                try await queue.run("update pushq.tenant set history_days = 400, feedback_days = 1")
                // Another tenant keeps its reports, so that the day stays.
                try await queue.run("insert into pushq.tenant (name, feedback_days) values ('beta', 400)")
            }
            try await runUpkeep(keepingFeedback: isTenantsTime ? 400 : 1, queue)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 0)
            let listed = try #require(try await lostTo())
            #expect(abs(listed.timeIntervalSinceNow) < 3600)
            // Another secret says nothing about what the receiver knows.
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: nil, sealed: Self.sealed(2), formerFor: .zero)
            #expect(try await lostTo() == listed)
            try await queue.connection.setWebhook(
                ofTenant: tenant, url: "https://b.example/", sealed: nil, formerFor: .zero)
            #expect(try await lostTo() == nil)
        }
    }

    @Test func `lose nothing with what the receiver has taken`() async throws {
        try await withWebhook { queue, _ in
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            let turn = try #require(
                try await queue.worker.takeWebhook(lease: Self.lease, atMost: 1, opening: Self.keys))
            #expect(try await !queue.worker.noteAccepted(turn))
            try await runUpkeep(keepingFeedback: 1, queue)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 0)
            #expect(try await queue.connection.webhook(of: "acme")?.webhook?.lostTo == nil)
        }
    }

    @Test func `begin with what is listed after the webhook was set, though a step of listing is on its way`()
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let tenant = Int32(try await queue.number("select id from pushq.tenant"))
            try await queue.run(Self.report(1))
            _ = try await queue.worker.listFeedback()
            try await queue.run(Self.report(2))
            let slow = try await database.connect()
            try await slow.runScript("begin; select pushq.list_feedback(10)")
            let setting = Task {
                _ = actor  // where the connection lives
                try await queue.connection.setWebhook(
                    ofTenant: tenant, url: "https://a.example/", sealed: Self.sealed(1), formerFor: .zero)
            }
            try await database.waitUntilBlocked("it to wait for the step", running: "set_webhook")
            try await slow.runScript("commit")
            try await setting.value
            try await queue.run(Self.report(3))
            _ = try await queue.worker.listFeedback()
            #expect(
                devices(try await queue.worker.takeWebhook(lease: Self.lease, atMost: 10, opening: Self.keys)) == ["3"])
        }
    }

    @Test func `are signed with the secret from before two changes in a row, too, until its time is over`() async throws
    {
        try await withWebhook { queue, tenant in
            func change(_ secret: UInt8, _ time: Duration) async throws -> (sealed: [UInt8], former: [UInt8]?) {
                try await queue.connection.setWebhook(ofTenant: tenant, url: nil, sealed: [secret], formerFor: time)
                let webhook = try #require(try await queue.connection.webhook(of: "acme")?.webhook)
                return (webhook.sealed, webhook.formerSealed)
            }
            #expect(try await change(2, .seconds(86_400)) == ([2], Self.sealed(1)))
            let until = try await queue.connection.webhook(of: "acme")?.webhook?.formerUntil
            #expect(try await change(3, .seconds(3600)) == ([3], Self.sealed(1)), "the receiver has that one")
            #expect(try await queue.connection.webhook(of: "acme")?.webhook?.formerUntil == until)
            try await queue.run("update pushq.webhook set former_until = now() - interval '1 second'")
            #expect(try await change(4, .seconds(3600)) == ([4], [3]))
            #expect(try await change(5, .zero) == ([5], nil))
        }
    }
}
