import PostgresStore
import TestSupport
import Testing

/// What is read and locked when the database is found to be another copy, before any worker may send.
@Suite(.timeLimit(.minutes(10))) struct `Finding the time to which a restore went back` {
    private func indexBlocksRead(in queue: QueueFixture) async throws -> Int {
        try await queue.reportStatistics()
        return try await queue.number(
            """
            select sum(coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::int8
            from pg_statio_user_tables
            where relname like 'message%'
            """)
    }

    /// Each session of a worker waits for it, and gives up after ten seconds. It once read the messages of all queues
    /// for each queue that had sent nothing.
    @Test func `reads few messages, though other queues have very many`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                insert into pushq.app (tenant_id, bundle_id)
                  select id, 'com.acme.idle' || n from pushq.tenant, generate_series(1, 20) n;
                insert into pushq.queue (tenant_id, app_id, environment)
                  select tenant_id, id, 'production' from pushq.app where bundle_id like 'com.acme.idle%';
                insert into pushq.message (queue_id, id, root_id, payload, push_type)
                  select \(queue.id), n, n, '{}', 'alert' from generate_series(1, 40000) n;
                analyze pushq.message
                """)
            let before = try await indexBlocksRead(in: queue)
            let last = "select (max(created_at) <= pushq.last_sign())::text as text from pushq.message"
            #expect(try await queue.texts(last) == ["true"])
            let read = try await indexBlocksRead(in: queue) - before
            #expect(read < 1000, "\(read)")
        }
    }

    /// The sequences that tell copies apart do not go back with a transaction.
    @Test func `that is refused because a queue is locked leaves nothing that looks like a restore`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await queue.worker.followTimeline()
            try await queue.run(
                #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array['aa'])"#)
            let holder = try await database.connect()
            try await holder.runScript("begin; select from pushq.queue for update")
            await #expect(throws: PostgresError.self) {
                try await queue.connection.runScript(
                    "set lock_timeout = '100ms'; select pushq.judge_lineage(declared => true)")
            }
            try await holder.runScript("rollback")
            try await queue.connection.runScript("reset lock_timeout")
            let copy = try #require(try await queue.worker.followTimeline())
            #expect(copy.undecidedQueues == 0)
        }
    }
}
