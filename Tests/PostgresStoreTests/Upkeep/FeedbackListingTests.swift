import FoundationEssentials
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// A producer that reads feedback page by page, while other sessions write.
@Suite(.timeLimit(.minutes(10))) struct `A reader of feedback` {
    /// Reads on from a cursor in pages, as a producer does that keeps the cursor.
    private struct Reader {
        let queue: QueueFixture
        var cursor: Int64 = 0
        /// The devices that the reader got, with their verdicts.
        var seen: [String] = []

        private static let page = Statement(
            "page",
            "select cursor, verdict, device_id from pushq.feedback_after($queue, $after, $most::int)")

        mutating func read(_ most: Int32 = 2) async throws {
            while true {
                let rows = try await queue.connection.execute(
                    Self.page,
                    ["queue": .queue(QueueFixture.name), "after": .int8(cursor), "most": .int4(most)])
                for row in rows {
                    #expect(row.int8("cursor") > cursor)
                    cursor = row.int8("cursor")
                    seen.append("\(row.text("verdict")) \(row.int8("device_id"))")
                }
                guard rows.count == Int(most) else { return }
            }
        }
    }

    private static func report(_ device: Int, _ verdict: String = "deactivated") -> String {
        """
        insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
        select id, \(device), \(Reason.unregistered.code), now(), '\(verdict)' from pushq.queue;
        """
    }

    @Test func `misses nothing that began earlier and was committed later, and gets nothing twice`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var reader = Reader(queue: queue)
            let slow = try await database.connect()
            try await slow.runScript("begin; \(Self.report(1))")
            try await queue.run(Self.report(2) + Self.report(3) + Self.report(4))
            #expect(try await queue.worker.listFeedback() == 3)
            try await reader.read()
            #expect(reader.seen == ["deactivated 2", "deactivated 3", "deactivated 4"])
            try await slow.runScript("commit")
            try await reader.read()
            #expect(reader.seen.count == 3, "nobody has listed it")
            #expect(try await queue.worker.listFeedback() == 1)
            #expect(try await queue.worker.listFeedback() == 0)
            try await reader.read()
            #expect(reader.seen.dropFirst(3) == ["deactivated 1"])
            let all = "select count(*) from pushq.feedback_after('\(QueueFixture.name)', null)"
            #expect(try await queue.number(all) == 4, "null is before the first, too")
        }
    }

    @Test func `misses nothing of a step that takes longer than the one after it`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            var reader = Reader(queue: queue)
            // A worker that was taken for lost lists feedback at the same time as another one.
            let first = try await database.connect()
            try await queue.run(Self.report(1))
            try await first.runScript("begin; select pushq.list_feedback(10)")
            try await queue.run(Self.report(2))
            let second = Task {
                _ = actor  // where the connection lives
                return try await queue.worker.listFeedback()
            }
            try await eventually("the second step to wait, or to be through", within: .seconds(30)) {
                try await queue.number(
                    """
                    select count(*) from pg_stat_activity
                    where datname = current_database() and query ~ 'list_feedback' and pid <> pg_backend_pid()
                      and (wait_event_type = 'Lock' or usename = '\(TestServer.workerLogin)' and state = 'idle')
                    """) == 1
            }
            try await reader.read()
            try await first.runScript("commit")
            _ = try await second.value
            try await reader.read()
            #expect(reader.seen == ["deactivated 1", "deactivated 2"])
        }
    }

    @Test func `gets nothing of a step that was rolled back, and all of it with the next one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var reader = Reader(queue: queue)
            try await queue.run(Self.report(1) + Self.report(2) + Self.report(3))
            let lost = try await database.connect()
            try await lost.runScript("begin; select pushq.list_feedback(10); rollback")
            try await reader.read()
            #expect(reader.seen == [])
            #expect(try await queue.worker.listFeedback(atMost: 2) == 2)
            #expect(try await queue.worker.listFeedback(atMost: 2) == 1)
            try await reader.read()
            #expect(reader.seen == ["deactivated 1", "deactivated 2", "deactivated 3"])
        }
    }

    @Test func `hears of what was done to devices, and again when it is undone`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let device = try await queue.number("select min(id) from pushq.device")
            try await queue.run(
                """
                update pushq.device
                set active = false, inactive_since = now(), inactive_reason = \(Reason.unregistered.code)
                where id = \(device);
                """ + Self.report(device) + Self.report(device + 1, "suspect") + Self.report(device + 1, "kept"))
            try await queue.run(
                """
                update pushq.feedback f set reported_at = d.inactive_since
                from pushq.device d where d.id = f.device_id and not d.active
                """)
            var reader = Reader(queue: queue)
            #expect(try await queue.worker.listFeedback() == 1)
            try await reader.read()
            #expect(reader.seen == ["deactivated \(device)"])
            let back = try await queue.connection.reactivateDevices(
                inQueue: QueueFixture.name, DeactivationFilter(), counts: false)
            #expect(back.reactivated == 1)
            #expect(try await queue.worker.listFeedback() == 1)
            try await reader.read()
            #expect(reader.seen == ["deactivated \(device)", "undone \(device)"])
        }
    }

    @Test func `is not told that a device is dead that its app has registered again since`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            let ids = try await queue.connection.execute(
                Statement("ids", "select id from pushq.device order by id")
            ).map { Int($0.int8("id")) }
            var reader = Reader(queue: queue)
            try await queue.run(
                """
                update pushq.device
                set active = false, inactive_since = now(), inactive_reason = \(Reason.unregistered.code);
                """ + ids.map { Self.report($0) }.joined())
            // One is registered, another brought back by hand, and the third registered and dead once more.
            try await queue.run(
                """
                select pushq.register_device('\(QueueFixture.name)', encode(token, 'hex'))
                from pushq.device where id in (\(ids[0]), \(ids[2]));
                select pushq.set_device('\(QueueFixture.name)', encode(token, 'hex'), true)
                from pushq.device where id = \(ids[1])
                """)
            try await queue.run(Self.report(ids[2]))
            while try await queue.worker.listFeedback(atMost: 2) > 0 {}
            try await reader.read()
            #expect(reader.seen == ["deactivated \(ids[3])", "deactivated \(ids[2])"])
            #expect(
                try await queue.number("select count(*) from pushq.feedback where verdict = 'kept' and cursor is null")
                    == 3)
        }
    }

    @Test func `begins where it likes: at a time, or at the present end`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            #expect(try await store.feedbackCursor(ofQueue: QueueFixture.name, since: nil) == 0)
            for device in 1...3 {
                try await queue.run(Self.report(device))
                #expect(try await queue.worker.listFeedback() == 1)
            }
            let second = Statement(
                "second", "select cursor, listed_at from pushq.feedback order by cursor limit 1 offset 1")
            let row = try await store.execute(second).one()
            #expect(
                try await store.feedbackCursor(ofQueue: QueueFixture.name, since: row.time("listed_at"))
                    < row.int8("cursor"))
            let later = row.time("listed_at").addingTimeInterval(0.000_01)
            var reader = Reader(queue: queue)
            reader.cursor = try await store.feedbackCursor(ofQueue: QueueFixture.name, since: later)
            try await reader.read()
            #expect(reader.seen == ["deactivated 3"])
            #expect(try await store.feedbackCursor(ofQueue: QueueFixture.name, since: nil) == reader.cursor)
        }
    }
}
