import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// When the feedback service is polled for a queue. The queue's setting decides, not the worker that polls.
@Suite(.timeLimit(.minutes(10))) struct `The schedule of the feedback service` {
    private static let queues = """
        insert into pushq.tenant (name) values ('acme');
        insert into pushq.app (tenant_id, bundle_id)
        select id, 'com.acme.' || n from pushq.tenant, unnest('{a,b}'::text[]) n;
        insert into pushq.credential (tenant_id, name, kind, environments, fingerprint, sealed)
        select id, 'certificate', 'certificate', '{production}', '', '' from pushq.tenant;
        insert into pushq.queue (tenant_id, app_id, environment, credential_id, gateway)
        select a.tenant_id, a.id, 'production', c.id, 'binary' from pushq.app a, pushq.credential c order by a.id;
        """

    private func run(_ body: @escaping @Sendable (Clock) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.runScript(Self.queues)
            try await body(Clock(store: store))
        }
    }

    /// A database in which a test can let time pass for the schedule.
    private struct Clock {
        let store: PostgresConnection
        private static let lease = Duration.seconds(900)

        /// Takes all queues that are due, as one worker would.
        func takeDue() async throws -> [Int32] {
            var due: [Int32] = []
            while let queue = try await store.takeFeedbackPoll(lease: Self.lease) { due.append(queue) }
            return due.sorted()
        }

        func pass(_ interval: String) async throws {
            try await store.runScript(
                """
                update pushq.feedback_poll
                set polled_at = polled_at - interval '\(interval)', not_before = not_before - interval '\(interval)'
                """)
        }

        func set(_ app: String, every interval: Duration) async throws {
            var change = QueueChange()
            change.feedbackEvery = interval
            try await store.setQueue(QueueName(tenant: "acme", app: app, environment: .production), to: change)
        }
    }

    @Test func `is each queue's own, and a changed setting holds at once`() async throws {
        try await run { clock in
            let both = try await clock.takeDue()
            #expect(both.count == 2)
            for queue in both { try await clock.store.noteFeedbackRead(of: queue) }
            #expect(try await clock.takeDue() == [])
            try await clock.set("com.acme.b", every: .seconds(6 * 3600))
            try await clock.pass("5 hours 59 minutes")
            #expect(try await clock.takeDue() == [])
            try await clock.pass("2 minutes")
            #expect(try await clock.takeDue() == [both[1]])
            try await clock.store.noteFeedbackRead(of: both[1])
            try await clock.set("com.acme.a", every: .seconds(3600))
            #expect(try await clock.takeDue() == [both[0]])
        }
    }

    @Test func `gives a queue to another worker when the one that read the list is gone`() async throws {
        try await run { clock in
            let both = try await clock.takeDue()
            #expect(both.count == 2)
            // The worker that took them is killed here, and no result is written.
            try await clock.pass("14 minutes")
            #expect(try await clock.takeDue() == [])
            try await clock.pass("2 minutes")
            #expect(try await clock.takeDue() == both)
        }
    }

    @Test func `backs off for the queue whose list cannot be read, and for no other`() async throws {
        try await run { clock in
            let (bad, good) = { ($0[0], $0[1]) }(try await clock.takeDue())
            try await clock.store.noteFeedbackRead(of: good)
            var waits: [Int] = []
            for failure in 1...8 {
                #expect(try await clock.store.noteFeedbackFailed(of: bad, problem: "refused") == failure)
                let rows = try await clock.store.execute(
                    Statement(
                        "wait",
                        "select round(extract(epoch from not_before - now()) / 60)::int8 as minutes from pushq.feedback_poll where queue_id = \(bad)"
                    ))
                let minutes = try rows.one().count("minutes")
                waits.append(minutes)
                try await clock.pass("\(minutes - 1) minutes 50 seconds")
                #expect(try await clock.takeDue() == [])
                try await clock.pass("20 seconds")
                #expect(try await clock.takeDue() == [bad])
            }
            #expect(waits == [1, 2, 4, 8, 16, 32, 60, 60])
            try await clock.store.noteFeedbackRead(of: bad)
            #expect(try await clock.store.noteFeedbackFailed(of: bad, problem: "refused") == 1)
        }
    }

    @Test(arguments: ["polled_at", "not_before"])
    func `holds when the clock was ahead, and is right again`(time: String) async throws {
        try await run { clock in
            for queue in try await clock.takeDue() { try await clock.store.noteFeedbackRead(of: queue) }
            #expect(try await clock.takeDue() == [])
            try await clock.store.runScript(
                """
                update pushq.feedback_poll set polled_at = polled_at - interval '1 year';
                update pushq.feedback_poll set \(time) = now() + interval '10 days'
                """)
            #expect(try await clock.takeDue().count == 2)
        }
    }

    @Test func `leaves out a queue whose certificate has expired, and one that is not sent over the binary interface`()
        async throws
    {
        try await run { clock in
            try await clock.store.runScript("update pushq.credential set not_after = now() - interval '1 minute'")
            #expect(try await clock.takeDue() == [])
            try await clock.store.runScript(
                """
                update pushq.credential set not_after = now() + interval '1 day';
                update pushq.queue set gateway = 'http2' where id = (select min(id) from pushq.queue);
                """)
            #expect(try await clock.takeDue().count == 1)
        }
    }

    @Test func `takes a time in the future for now, and 1970 for what it is`() async throws {
        try await run { clock in
            let queue = try await clock.takeDue()[0]
            try await clock.store.runScript(
                "insert into pushq.device (queue_id, token) select \(queue), t from unnest('{\\\\x01,\\\\x02}'::bytea[]) t"
            )
            try await clock.store.keepFeedback(
                of: queue, readWith: [], tokens: [[1], [2]], times: [Int64(UInt32.max), 0])
            let rows = try await clock.store.execute(
                Statement(
                    "times",
                    "select extract(epoch from reported_at)::int8 as time, reported_at <= now() as is_past from pushq.feedback_record order by token"
                ))
            #expect(rows.map { $0.bool("is_past") } == [true, true])
            #expect(rows.last?.int8("time") == 0)
        }
    }

    @Test func `stores of a list only tokens that the queue has, each with its latest time`() async throws {
        try await run { clock in
            let both = try await clock.takeDue()
            try await clock.store.runScript(
                """
                insert into pushq.device (queue_id, token) values
                  (\(both[0]), '\\x01'), (\(both[0]), '\\x02'), (\(both[1]), '\\x03')
                """)
            // Both queues have been given another certificate since the list was read.
            try await clock.store.keepFeedback(
                of: both[0], readWith: Array("former".utf8), tokens: [[1], [3], [1], [4], [2], [], [1]],
                times: [10, 11, 30, 12, 13, 14, 20])
            let rows = try await clock.store.execute(
                Statement(
                    "kept",
                    "select token, extract(epoch from reported_at)::int8 as time from pushq.feedback_record order by token"
                ))
            #expect(rows.map { $0.bytes("token") } == [[1], [2]])
            #expect(rows.map { $0.int8("time") } == [30, 13])
        }
    }

    /// Reading clears the list of the certificate. What one queue has read is lost to the others that would have read
    /// it.
    @Test func `keeps a list for all queues with its certificate, also of other tenants, and for no others`()
        async throws
    {
        try await run { clock in
            let both = try await clock.takeDue()
            try await clock.store.runScript(
                """
                -- The second queue gets a certificate of its own, …
                update pushq.credential set fingerprint = 'shared', environments = '{production,sandbox}';
                insert into pushq.credential (tenant_id, name, kind, environments, fingerprint, sealed)
                select id, 'own', 'certificate', '{production}', 'own', '' from pushq.tenant;
                update pushq.queue set credential_id = (select id from pushq.credential where name = 'own')
                where id = \(both[1]);
                -- … and that of the first is used in the other environment and by another tenant, too, …
                insert into pushq.queue (tenant_id, app_id, environment, credential_id, gateway)
                select tenant_id, app_id, 'sandbox', credential_id, 'binary' from pushq.queue where id = \(both[0]);
                insert into pushq.tenant (name, suspended_at) values ('partner', now());
                insert into pushq.app (tenant_id, bundle_id)
                select t.id, b.id
                from pushq.tenant t, unnest('{com.acme.a,com.acme.c}'::text[]) b(id) where t.name = 'partner';
                insert into pushq.credential (tenant_id, name, kind, environments, fingerprint, sealed)
                select id, 'same', 'certificate', '{production}', 'shared', '' from pushq.tenant where name = 'partner';
                -- … once over HTTP/2, whose answers say the same of dead tokens.
                insert into pushq.queue (tenant_id, app_id, environment, credential_id, gateway)
                select a.tenant_id, a.id, 'production', c.id,
                       case a.bundle_id when 'com.acme.a' then 'binary' else 'http2' end
                from pushq.app a join pushq.credential c on c.tenant_id = a.tenant_id and c.name = 'same';
                -- Each queue has a token of its own, and those that do not read the list have the first one's as well.
                insert into pushq.device (queue_id, token) select id, int4send(id) from pushq.queue;
                insert into pushq.device (queue_id, token)
                select q.id, int4send(\(both[0]))
                from pushq.queue q join pushq.app a on a.id = q.app_id
                where a.bundle_id in ('com.acme.b', 'com.acme.c');
                """)
            let tokens = try await clock.store.execute(
                Statement("tokens", "select distinct token from pushq.device")
            ).map { $0.bytes("token") }
            try await clock.store.keepFeedback(
                of: both[0], readWith: Array("shared".utf8), tokens: tokens, times: tokens.map { _ in 4_000_000_000 })
            #expect(try await clock.store.actOnFeedback() == (acted: 3, deactivated: 3))
            let dead = try await clock.store.execute(
                Statement(
                    "dead",
                    """
                    select concat_ws('/', t.name, a.bundle_id, q.environment) as queue
                    from pushq.device d
                    join pushq.queue q on q.id = d.queue_id
                    join pushq.app a on a.id = q.app_id
                    join pushq.tenant t on t.id = q.tenant_id
                    where not d.active
                    order by 1
                    """
                ))
            #expect(
                dead.map { $0.text("queue") } == [
                    "acme/com.acme.a/production", "acme/com.acme.a/sandbox", "partner/com.acme.a/production",
                ])
        }
    }
}
