import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// For a queue that is not in PostgreSQL's statistics, which contain others, the planner expects a single row. Then a
/// plan that reads all devices of the queue for each line seems as good as one that looks each of them up: 60,000 lines
/// took minutes, and registrations waited.
@Suite(.timeLimit(.minutes(5))) struct `An import into a queue that is not in the statistics` {
    private static let lines = 1000

    /// Adds a queue, in which the tests import, beside one that is in the statistics.
    private func withSecondQueue(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, QueueName) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 20_000)
            try await queue.run(
                """
                alter table pushq.device set (autovacuum_enabled = off);
                alter table pushq.profile set (autovacuum_enabled = off);
                alter table pushq.badge set (autovacuum_enabled = off);
                insert into pushq.profile (queue_id, device_id, installation, tags)
                select d.queue_id, d.id, 'other ' || d.id, '{a}' from pushq.device d;
                insert into pushq.badge (queue_id, device_id, count) select d.queue_id, d.id, 1 from pushq.device d;
                update pushq.device d set replaced_by = d.id + 1 where d.id % 100 = 0;
                analyze;
                insert into pushq.app (tenant_id, bundle_id) select id, 'com.second' from pushq.tenant;
                insert into pushq.queue (tenant_id, app_id, environment)
                select a.tenant_id, a.id, 'sandbox' from pushq.app a where a.bundle_id = 'com.second'
                """)
            try await body(actor, queue, QueueName(tenant: "acme", app: "com.second", environment: .sandbox))
        }
    }

    private static func file(tokens: String, user: String, more: String = "") -> String {
        "token,user_key,installation,tags,time_zone\n"
            + (0..<lines).map { "\(tokens)\($0 + 100_000),\(user)\($0),phone \($0),a|b,Europe/Vienna\n" }.joined()
    }

    private func add(
        _ text: String, to second: QueueName, _ queue: QueueFixture, reactivates: Bool = false
    ) async throws -> DeviceImportSummary {
        try await queue.connection.importDevices(from: .text(text), inQueue: second, reactivates: reactivates) { _ in }
    }

    /// Returns how many rows of devices, and of what belongs to them, `body` reads for each line.
    private func rowsPerLine(_ queue: QueueFixture, _ body: () async throws -> Void) async throws -> Int {
        let read = """
            select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables
            where relname in ('device', 'profile', 'badge')
            """
        try await queue.reportStatistics()
        let before = try await queue.number(read)
        try await body()
        try await queue.reportStatistics()
        return (try await queue.number("\(read) -- afterwards") - before) / Self.lines
    }

    @Test func `looks each device and each installation up`() async throws {
        try await withSecondQueue { _, queue, second in
            let first = try await rowsPerLine(queue) {
                let summary = try await add(Self.file(tokens: "aa", user: "u"), to: second, queue)
                #expect(summary.new == Self.lines && summary.profiles == Self.lines)
            }
            #expect(first < 50)
            let again = try await rowsPerLine(queue) {
                let same = Self.file(tokens: "aa", user: "u")
                let summary = try await add(same, to: second, queue, reactivates: true)
                #expect(summary.unchanged == Self.lines && summary.profiles == 0)
            }
            #expect(again < 50)
            try await queue.run(
                """
                insert into pushq.badge (queue_id, device_id, count)
                select d.queue_id, d.id, 1 from pushq.device d where d.queue_id <> \(queue.id)
                """)
            let others = try await rowsPerLine(queue) {
                let summary = try await add(Self.file(tokens: "aa", user: "v"), to: second, queue)
                #expect(summary.changed == Self.lines)
            }
            #expect(others < 50)
            let newer = try await rowsPerLine(queue) {
                let summary = try await add(Self.file(tokens: "bb", user: "v"), to: second, queue)
                #expect(summary.replaced == Self.lines)
            }
            #expect(newer < 100)
        }
    }

    /// As if registrations had run meanwhile.
    @Test func `keeps one token of each installation afterwards by such look-ups, too`() async throws {
        try await withSecondQueue { _, queue, second in
            _ = try await add(Self.file(tokens: "aa", user: "u"), to: second, queue)
            try await queue.run(
                """
                set enable_nestloop = off;
                insert into pushq.device (queue_id, token, user_key)
                select d.queue_id, d.token || '\\xff', d.user_key from pushq.device d where d.queue_id <> \(queue.id);
                insert into pushq.profile (queue_id, device_id, installation)
                select n.queue_id, n.id, p.installation
                from pushq.device d
                join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
                join pushq.device n on n.queue_id = d.queue_id and n.token = d.token || '\\xff'
                where d.queue_id <> \(queue.id);
                reset enable_nestloop
                """)
            let kept = try await rowsPerLine(queue) {
                let replaced = try await queue.number(
                    """
                    select pushq.keep_one_token(q.queue_id, array(select 'phone ' || i from generate_series(0, 999) i))
                    from (select max(id) as queue_id from pushq.queue) q
                    """)
                #expect(replaced == Self.lines)
            }
            #expect(kept < 100)
        }
    }
}
