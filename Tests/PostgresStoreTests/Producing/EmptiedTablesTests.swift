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

    @Test(arguments: calls) func `read none of them from end to end`(call: Call) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("vacuum")
            func script(_ sql: String) -> String {
                let call = sql.replacing("QUEUE", with: "\(QueueFixture.name)")
                    .replacing("TOKEN", with: "encode(int8send(i), 'hex')")
                return "select count(c::text) from generate_series(1, \(Self.count)) i, lateral (\(call)) c"
            }
            try await queue.run("begin; \(script(call.before)); \(script(call.sql))")
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
}
