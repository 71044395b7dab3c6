import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A command that waits for another transaction` {
    /// Runs `body` while a transaction that has run `sql` is open.
    private func whileHeld(
        by sql: String, in shop: Shop, _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        let address = try DatabaseAddress(url: shop.environment["PUSHQ_DATABASE_URL"])
        let loop = EventLoop(name: "holder")
        defer { loop.shutDown() }
        try await loop.run { _ in
            let holder = try await PostgresConnection.connectPatiently(to: address, as: "holder", on: loop)
            defer { holder.close() }
            try await holder.transaction {
                _ = try await holder.execute(Statement("hold", sql))
                try await body()
            }
        }
    }

    private func nothingWaits(in shop: Shop) async throws {
        try await eventually("nothing waits any more") {
            try await shop.texts(
                """
                select pid::text as text from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock'
                """
            ).isEmpty
        }
    }

    @Test func `is given up by PostgreSQL before its caller, and does not take effect later`() async throws {
        try await Shop.open { shop in
            try await whileHeld(by: "select 1 from pushq.queue for update", in: shop) {
                expectFailure(
                    try await shop.admin("queue", "pause", Shop.queue), code: 1,
                    saying: "pause_queue: ", "; it was not carried out: another transaction holds a lock")
                try await nothingWaits(in: shop)
            }
            #expect(try await shop.texts("select count(paused_at)::text as text from pushq.queue") == ["0"])
            #expect(try await shop.admin("queue", "pause", Shop.queue).code == 0)
        }
    }

    @Test func `is told the same where it is a transaction of several statements`() async throws {
        try await Shop.open { shop in
            try await whileHeld(by: "select 1 from pushq.tenant for update", in: shop) {
                expectFailure(
                    try await shop.admin("tenant", "set", "acme", "--weight", "2", "--rate", "1000"), code: 1,
                    saying: "set_tenant: ", "; it was not carried out: another transaction holds a lock")
                try await nothingWaits(in: shop)
            }
            #expect(try await shop.texts("select weight::text as text from pushq.tenant") == ["1"])
        }
    }

    @Test func `says what it has done before, and goes on with the rest when it is run again`() async throws {
        try await Shop.open { shop in
            let register = "select pushq.register_device('\(Shop.queue)', 'aa')"
            try await shop.run(register)
            try await whileHeld(by: register, in: shop) {
                expectFailure(
                    try await shop.admin("tenant", "remove", "acme", "--yes"), code: 1,
                    saying: "acme was removed, but what its queues held is not all deleted yet: run the command again",
                    "clear_queue: ", "; it was not carried out: another transaction holds a lock")
                #expect(try await shop.texts("select name as text from pushq.tenant").isEmpty)
            }
            let devices = "select count(*)::text as text from pushq.device"
            #expect(try await shop.texts(devices) == ["1"])
            #expect(try await shop.admin("tenant", "remove", "acme", "--yes").code == 0)
            #expect(try await shop.texts(devices) == ["0"])
        }
    }
}
