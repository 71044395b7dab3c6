import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A command that waits for another transaction` {
    @Test func `is given up by PostgreSQL before its caller, and does not take effect later`() async throws {
        try await Shop.open { shop in
            let address = try DatabaseAddress(url: shop.environment["PUSHQ_DATABASE_URL"])
            let loop = EventLoop(name: "holder")
            defer { loop.shutDown() }
            try await loop.run { _ in
                let holder = try await PostgresConnection.connect(to: address, as: "holder", on: loop)
                defer { holder.close() }
                try await holder.transaction {
                    _ = try await holder.execute(Statement("hold", "select 1 from pushq.queue for update"))
                    expectFailure(
                        try await shop.admin("queue", "pause", Shop.queue), code: 1,
                        saying: "pause_queue: ", "; nothing was changed: another transaction holds a lock")
                    try await eventually("nothing waits any more") {
                        try await shop.texts(
                            """
                            select pid::text as text from pg_stat_activity
                            where datname = current_database() and wait_event_type = 'Lock'
                            """
                        ).isEmpty
                    }
                }
            }
            #expect(try await shop.texts("select count(paused_at)::text as text from pushq.queue") == ["0"])
            #expect(try await shop.admin("queue", "pause", Shop.queue).code == 0)
        }
    }
}
