import PostgresStore
import TestSupport
import Testing

/// A producer's call reads a few rows, whatever PostgreSQL knows about the tables.
@Suite(.timeLimit(.minutes(10))) struct `A queue that is not in the statistics` {
    /// What the statistics know instead.
    enum Known: String, CaseIterable, CustomTestStringConvertible {
        /// As before the first ANALYZE, and within the transaction that fills the first queue.
        case nothing
        /// As before the ANALYZE that comes after a tenth of the rows have changed.
        case anotherQueue

        var testDescription: String { rawValue }
    }

    private static let message = #"'{"aps":{"alert":"x"}}'::json"#

    /// Calls of producers, with `QUEUE` for the queue's name, `LIST` for an open list and `USERS` for one of users.
    private static let calls = [
        "pushq.send('QUEUE', \(message), array['ffff01'])",
        "pushq.send('QUEUE', \(message), array['ffff02', 'ffff03', '0000000000000001'])",
        "pushq.send('QUEUE', \(message), array['0000000000000001'])",
        "pushq.send('QUEUE', \(message), user_key => 'user 7')",
        "pushq.send('QUEUE', \(message), user_keys => array['user 7', 'user 8'])",
        "pushq.send('QUEUE', \(message), array['0000000000000001'], key => 'order-1')",
        "pushq.send_many('QUEUE', array[\(message), \(message)], tokens => array['ffff04', '0000000000000002'])",
        "pushq.send_many('QUEUE', array[\(message), \(message)], user_keys => array['user 7', 'user 8'])",
        "pushq.register_device('QUEUE', 'ffff05')",
        "pushq.register_device('QUEUE', '0000000000000003')",
        "pushq.register_device('QUEUE', 'ffff06', 'user 6', installation => 'another phone', locale => 'de')",
        "pushq.register_device('QUEUE', '0000000000000007', 'user 9', installation => 'phone 7', locale => 'de')",
        "pushq.add_to_list('QUEUE', LIST, array['ffff07', '0000000000000004'])",
        "pushq.add_users_to_list('QUEUE', USERS, array['user 7', 'user 8'])",
        "pushq.start_campaign('QUEUE', 'sale', \(message), tokens => array['ffff08', '0000000000000005'])",
        "pushq.start_campaign('QUEUE', 'all', \(message))",
        "pushq.unregister_device('QUEUE', '0000000000000006')",
    ]

    /// Calls by which a token replaces another one of its installation. Before the first ANALYZE they may read the
    /// queue: their statements are also those of an import, which replaces a million.
    private static let replacements = [
        "pushq.register_device('QUEUE', 'ffff06', 'user 7', installation => 'phone 7', locale => 'de')",
        "pushq.register_device('QUEUE', '0000000000000007', 'user 9', installation => 'phone 9', locale => 'de')",
    ]

    private static let rowsRead = Statement(
        "rows_read",
        """
        select coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid)), 0)::int8
          as rows
        from pg_class c
        where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'i')
        """)

    private static let otherQueue = """
        insert into pushq.device (queue_id, token, user_key)
        select 1001 + i % 3, int8send(i), 'user ' || i from generate_series(1, 30000) i;
        insert into pushq.profile (queue_id, device_id, installation, locale)
        select queue_id, id, replace(user_key, 'user', 'phone'), 'en' from pushq.device;
        analyze
        """

    /// How many rows and index entries each call reads in a queue of so many devices.
    private static func rowsRead(devices: Int, known: Known) async throws -> [Int] {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.connection.runScript(
                """
                do $$ declare t regclass; begin
                  for t in select c.oid from pg_class c
                           where c.relnamespace = 'pushq'::regnamespace and c.relkind = 'r' loop
                    execute format('alter table %s set (autovacuum_enabled = off)', t);
                  end loop;
                end $$;
                \(known == .anotherQueue ? otherQueue : "");
                insert into pushq.device (queue_id, token, user_key)
                select \(queue.id), int8send(i), 'user ' || i from generate_series(1, \(devices)) i;
                insert into pushq.profile (queue_id, device_id, installation, locale)
                select queue_id, id, replace(user_key, 'user', 'phone'), 'en' from pushq.device where queue_id = \(queue.id);
                """, within: .seconds(60))
            let lists = (
                try await queue.number("select pushq.new_list('\(QueueFixture.name)')"),
                try await queue.number("select pushq.new_list('\(QueueFixture.name)')")
            )
            var rows: [Int] = []
            for call in known == .nothing ? calls : calls + replacements {
                let call = call.replacing("QUEUE", with: "\(QueueFixture.name)").replacing("LIST", with: "\(lists.0)")
                    .replacing("USERS", with: "\(lists.1)")
                // A session of its own, as a producer's: nothing is planned.
                let producer = try await database.connect()
                try await producer.runScript("begin; savepoint s; select \(call); rollback to s")
                let before = try await producer.execute(rowsRead).one().int8("rows")
                try await producer.runScript("select \(call)")
                rows.append(Int(try await producer.execute(rowsRead).one().int8("rows") - before))
                try await producer.runScript("rollback")
                producer.close()
            }
            return rows
        }
    }

    @Test(arguments: Known.allCases) func `is read no further by a producer's call the more devices it has`(
        known: Known
    ) async throws {
        let few = try await Self.rowsRead(devices: 40, known: known)
        let many = try await Self.rowsRead(devices: 4000, known: known)
        for (call, (few, many)) in zip(Self.calls + Self.replacements, zip(few, many)) {
            #expect(many <= few + 40, "\(call): \(few) rows of a small queue, \(many) of a large one")
        }
    }
}
