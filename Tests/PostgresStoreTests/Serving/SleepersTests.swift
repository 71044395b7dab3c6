import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `That a worker sleeps` {
    @Test func `is said by one row, which it writes anew, and deletes when it wakes`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let worker = queue.worker
            let (rows, age) = ("select count(*) from pushq.sleeper", "select max(now() - since) from pushq.sleeper")
            try await worker.fallAsleep(1, serving: "*")
            try await queue.run("update pushq.sleeper set since = since - interval '5 seconds'")
            try await worker.fallAsleep(1, serving: "*")
            #expect(try await queue.number(rows) == 1)
            #expect(try await queue.number("select count(*) from (\(age)) a(age) where age < interval '5 s'") == 1)
            try await worker.wakeUp(1)
            #expect(try await queue.number(rows) == 0)
        }
    }

    @Test func `is believed for twelve seconds, so that one that is gone is not notified for ever`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let session = try await database.connect()
            let heard = Locked<[String]>([])
            session.onNotification = { channel, _ in heard.withLock { $0.append(channel) } }
            for worker: Int64 in [1, 2] {
                try await session.listen(to: Notice.channel(of: worker))
                try await queue.worker.fallAsleep(worker, serving: "*")
            }
            try await queue.run("update pushq.sleeper set since = since - interval '13 s' where worker_id = 2")
            try await queue.run("select pushq.wake()")
            try await eventually("the one to be notified") { heard.withLock { !$0.isEmpty } }
            _ = try await session.execute(Statement("one", "select 1"))
            #expect(heard.withLock { $0 } == ["pushq_1"])
        }
    }

    /// A dump of an hour keeps what workers delete meanwhile, each time that they are notified.
    @Test func `costs a send no more while a snapshot keeps the rows of those that woke`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("alter table pushq.sleeper set (autovacuum_enabled = off)")
            let dump = try await database.connect()
            try await dump.runScript("begin isolation level repeatable read")
            try await dump.runScript("select 1")
            try await queue.run(
                """
                insert into pushq.sleeper (worker_id, since)
                select n, now() - interval '1 hour' + n * interval '1 ms' from generate_series(1, 20000) n;
                delete from pushq.sleeper
                """)
            let send = #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', array['ab'])"#
            // The first send registers the token, and later ones take the short way.
            for _ in 1...2 { try await queue.run(send) }
            func pages() async throws -> Int {
                try await queue.reportStatistics()
                return try await queue.number(
                    """
                    select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
                    from pg_statio_user_tables
                    where relid = 'pushq.sleeper'::regclass
                    """)
            }
            let before = try await pages()
            try await queue.run(send)
            #expect(try await pages() - before < 20)
        }
    }
}
