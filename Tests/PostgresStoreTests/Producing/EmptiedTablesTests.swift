import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Vacuum leaves emptied tables without a page, and the cheapest plan for such a table is a sequential scan. A session
/// keeps its plans, and no other session sees the rows that an open transaction has added: 20,000 registrations took
/// six minutes.
@Suite(.timeLimit(.minutes(10))) struct `Calls in a transaction that fills emptied tables` {
    struct Call: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The call for number `i`, with a token and a user of its own.
        let sql: String
        /// A call to run before all others.
        var before = "select 1"
    }

    private static let registered = "select pushq.register_device('QUEUE', TOKEN, 'u' || i)"
    private static let installed = """
        select pushq.register_device('QUEUE', TOKEN, 'u' || i, tags => '{a}', installation => 'phone ' || i)
        """
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    static let calls = [
        Call(testDescription: "a registration", sql: "select pushq.register_device('QUEUE', TOKEN)"),
        Call(testDescription: "a registration for a user", sql: registered),
        Call(testDescription: "a registration of an installation", sql: installed),
        Call(
            testDescription: "a newer token of an installation",
            sql: """
                select pushq.register_device('QUEUE', 'ff' || TOKEN, 'u' || i, installation => 'phone ' || i)
                """, before: installed),
        Call(testDescription: "the same registration again", sql: installed, before: installed),
        Call(
            testDescription: "the end of a registration", sql: "select pushq.unregister_device('QUEUE', TOKEN)",
            before: installed),
        Call(
            testDescription: "a deletion", sql: "select pushq.forget_device('QUEUE', TOKEN)", before: installed),
        Call(
            testDescription: "a deletion of a user", sql: "select pushq.forget_user('QUEUE', 'u' || i)",
            before: installed),
        Call(
            testDescription: "a badge of a device", sql: "select pushq.set_badge('QUEUE', token => TOKEN, badge => 1)",
            before: registered),
        Call(
            testDescription: "a badge of a user",
            sql: "select pushq.set_badge('QUEUE', user_key => 'u' || i, badge => 1)", before: registered),
        Call(
            testDescription: "a send to a new token",
            sql: "select pushq.send('QUEUE', \(payload), tokens => array[TOKEN])"),
        Call(
            testDescription: "a send under a key",
            sql: "select pushq.send('QUEUE', \(payload), tokens => array[TOKEN], key => 'k' || i)"),
        Call(
            testDescription: "a send to a user",
            sql: "select pushq.send('QUEUE', \(payload), user_key => 'u' || i)", before: registered),
        Call(
            testDescription: "a send of one among many",
            sql: "select pushq.send_many('QUEUE', array[\(payload)]::json[], tokens => array[TOKEN])"),
        Call(
            testDescription: "an update of a Live Activity that takes the place of the one before",
            sql: """
                select pushq.send('QUEUE', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}',
                                  tokens => array[TOKEN], push_type => 'liveactivity', replace_waiting => true)
                """),
        Call(
            testDescription: "a cancelled send",
            sql: """
                select pushq.cancel('QUEUE', pushq.send('QUEUE', \(payload), tokens => array[TOKEN]))
                """),
        Call(
            testDescription: "a status",
            sql: "select pushq.status('QUEUE', pushq.send('QUEUE', \(payload), tokens => array[TOKEN]))"),
        Call(
            testDescription: "a campaign to tokens",
            sql: "select pushq.start_campaign('QUEUE', 'k' || i, \(payload), tokens => array[TOKEN])"),
    ]

    private static let count = 300

    /// Makes the call for each number.
    private static func script(_ sql: String) -> String {
        let call = sql.replacing("QUEUE", with: "\(QueueFixture.name)")
            .replacing("TOKEN", with: "encode(int8send(i), 'hex')")
        return "select count(c::text) from generate_series(1, \(count)) i, lateral (\(call)) c"
    }

    /// Leaves the schema's empty tables without a page, and has the server know it. Vacuum without a list also takes
    /// the catalogs that all databases share, on which it would wait for other tests.
    private static func vacuum(_ queue: QueueFixture) async throws {
        let tables = try await queue.texts(
            "select oid::regclass from pg_class where relnamespace = 'pushq'::regnamespace and relkind = 'r'")
        try await queue.run("vacuum \(tables.joined(separator: ", "))")
        // A table that kept a page, or that was not vacuumed, would get other plans than those that are tested.
        let others = try await queue.texts(
            """
            select format('%s: %s pages, %s rows', relname, relpages, reltuples)
            from pg_class
            where relnamespace = 'pushq'::regnamespace and relkind = 'r' and (relpages <> 0 or reltuples <> 0)
              and relname ~ '^(device|profile|badge|job|send_key|(body|message)_[0-9]+)$'
            """)
        #expect(others == [])
    }

    @Test(arguments: calls) func `read none of them from end to end`(call: Call) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await Self.vacuum(queue)
            try await queue.connection.runScript(
                "begin; \(Self.script(call.before)); \(Self.script(call.sql))", within: .seconds(60))
            // A full scan for each call reads a hundred times as much.
            let scanned = try await queue.texts(
                """
                select format('%s rows of %s', seq_tup_read, relname)
                from pg_stat_xact_user_tables
                where schemaname = 'pushq' and seq_tup_read > \(20 * Self.count)
                """)
            #expect(scanned == [])
            try await queue.run("rollback")
        }
    }

    /// The planner expects a single row in a queue that is not in the statistics, which contain others. Then reading
    /// all devices of the queue seems as cheap as using the whole key. A deletion, which is rare, reads all of its
    /// queue's history anyway.
    @Test(arguments: calls.filter { !$0.testDescription.hasPrefix("a deletion") })
    func `read no queue from end to end that is not in the statistics either`(call: Call) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func fill(_ queue: Int32, _ first: Int, _ last: Int) -> String {
                """
                insert into pushq.device (queue_id, token, user_key)
                select \(queue), int8send(i), 'other ' || i from generate_series(\(first), \(last)) i;
                insert into pushq.profile (queue_id, device_id, installation)
                select d.queue_id, d.id, 'other ' || d.id from pushq.device d where d.queue_id = \(queue);
                insert into pushq.badge (queue_id, device_id, count)
                select d.queue_id, d.id, 1 from pushq.device d where d.queue_id = \(queue);
                update pushq.device d set replaced_by = d.id - 1 where d.queue_id = \(queue) and d.id % 10 = 0;
                """
            }
            try await queue.connection.runScript(
                """
                alter table pushq.device set (autovacuum_enabled = off);
                alter table pushq.profile set (autovacuum_enabled = off);
                alter table pushq.badge set (autovacuum_enabled = off);
                \(fill(queue.id + 1, 1, 5000))
                analyze;
                \(fill(queue.id, 10_001, 12_000))
                """, within: .seconds(60))
            // What was read until now does not count.
            try await queue.reportStatistics()
            try await queue.connection.runScript(
                "begin; \(Self.script(call.before)); \(Self.script(call.sql))", within: .seconds(60))
            let read = try await queue.texts(
                """
                select format('%s rows of %s', t.read, t.relname)
                from (
                  select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) as read from pg_stat_xact_user_tables
                  where schemaname = 'pushq' and relname in ('device', 'profile', 'badge')) t
                where t.read > \(200 * Self.count)
                """)
            #expect(read == [])
            try await queue.run("rollback")
        }
    }
}
