import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(2))) struct `What dead workers leave behind` {
    @Test func `is cleared away by those that live, a sleeper without a worker too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for incarnation: Int64 in [1, 2, 3] {
                try await queue.connection.showWorker(incarnation, name: "w", version: "", isDraining: false)
                try await queue.connection.fallAsleep(incarnation, serving: "*")
            }
            // The first is gone, of the second only its sleep is left, the third is at work.
            try await queue.run(
                """
                update pushq.worker set seen_at = now() - interval '2 minutes' where incarnation = 1;
                delete from pushq.worker where incarnation = 2;
                update pushq.sleeper set since = now() - interval '2 minutes'
                """)
            try await queue.connection.showWorker(3, name: "w", version: "", isDraining: false)
            #expect(try await queue.number("select sum(incarnation) from pushq.worker") == 3)
            #expect(try await queue.number("select sum(incarnation) from pushq.sleeper") == 3)
        }
    }
}
