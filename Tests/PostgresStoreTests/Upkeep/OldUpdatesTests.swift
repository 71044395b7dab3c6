import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Updates that were the newest long ago` {
    /// Adds waiting jobs, each with a message of its own. That of the last one is an update that was due 41 days ago.
    private func addJobs(_ count: Int, to queue: QueueFixture) async throws {
        try await queue.run(
            """
            insert into pushq.message (queue_id, id, root_id, payload, push_type, due_at)
            select \(queue.id), i, i, '{}', case when i = \(count) then 'liveactivity' else 'alert' end,
                   case when i = \(count) then now() - interval '41 days' end
            from generate_series(1, \(count)) i;
            insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
            select \(queue.id), i, 1, now(), now() + interval '1 day', i, i, pushq.today(), 1
            from generate_series(1, \(count)) i
            """)
    }

    private func addUpdates(_ count: Int, due days: Int, to queue: QueueFixture) async throws {
        try await queue.run(
            """
            insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
            select \(queue.id), i, now() - interval '\(days) days', 0 from generate_series(1, \(count)) i
            """)
    }

    @Test func `stay while an older one waits, also behind thousands of other jobs or at a worker`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await addJobs(12_000, to: queue)
            try await addUpdates(6000, due: 42, to: queue)
            try await addUpdates(3, due: 40, to: queue)
            try await queue.worker.forget()
            let updates = "select count(*) from pushq.newest_update"
            #expect(try await queue.number(updates) == 3)
            try await queue.run(
                """
                with held as (delete from pushq.job where id = 12000 returning *)
                insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, lane,
                                         run_at, send_by, message_id, root_id, body_day, recipient_count, attempt,
                                         losses, at_most_once)
                select queue_id, id, 1, 1, now() + interval '1 hour', 0, decode('00', 'hex'), lane, run_at, send_by,
                       message_id, root_id, body_day, recipient_count, attempt, losses, at_most_once
                from held
                """)
            try await queue.worker.forget()
            #expect(try await queue.number("\(updates) -- while it is held") == 3)
            try await queue.run("delete from pushq.lease")
            try await queue.worker.forget()
            #expect(try await queue.number("\(updates) -- when nothing waits") == 0)
        }
    }

    @Test func `are forgotten with one look at each job that waits, however many they are`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await addJobs(20_000, to: queue)
            try await addUpdates(16_000, due: 42, to: queue)
            let count = """
                select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relid = 'pushq.job'::regclass
                """
            try await queue.reportStatistics()
            let before = try await queue.number(count)
            try await queue.worker.forget()
            try await queue.reportStatistics()
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 0)
            let read = try await queue.number("\(count) -- afterwards") - before
            #expect(read < 40_000, "\(read) rows")
        }
    }
}
