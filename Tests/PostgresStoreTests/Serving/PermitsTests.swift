import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(5))) struct `Taking permits` {
    private func withRate(
        _ rate: Double, burst: Double, _ body: @escaping @Sendable (QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                "insert into pushq.pace (queue_id, rate, burst) values (\(queue.id), \(rate), \(burst))")
            try await body(queue)
        }
    }

    private func take(_ permits: Int, of queue: QueueFixture, horizon: Duration = .milliseconds(250)) async throws
        -> GrantedPermits
    {
        try await queue.connection.takePermits([(owner: .queue(queue.id), permits: permits)], horizon: horizon)[0]
    }

    @Test func `grants the burst at once after a quiet time, then what the rate brings within the horizon`()
        async throws
    {
        try await withRate(100, burst: 30) { queue in
            try await queue.run("update pushq.pace set tat = now() - interval '1 hour'")
            let first = try await take(1000, of: queue)
            // Of a burst of 30 ten are kept back for permits that are used late; 25 more are due within a quarter of a second.
            #expect((44...46).contains(first.count))
            #expect(first.startsIn <= .milliseconds(-185))
            let before = ContinuousClock.now
            let second = try await take(1000, of: queue)
            let passed = before.duration(to: .now) / .seconds(1)
            // The time between the two calls brings some more; how much lies with the machine.
            #expect(second.count <= Int(passed * 100) + 3)
        }
    }

    @Test func `grants no more than is wanted, and the rest to the next who asks`() async throws {
        try await withRate(100, burst: 1) { queue in
            try await queue.run("update pushq.pace set tat = now() - interval '1 hour'")
            #expect(try await take(5, of: queue).count == 5)
            #expect(try await take(5, of: queue).count == 5)
        }
    }

    @Test func `grants a slow queue its one permit when it comes within the horizon`() async throws {
        try await withRate(0.7, burst: 1) { queue in
            try await queue.run("update pushq.pace set tat = now() - interval '1 hour'")
            #expect(try await take(1, of: queue).count == 1)
            let none = try await take(1, of: queue)
            #expect(none.count == 0)
            #expect((.milliseconds(1100)...(.milliseconds(1530))).contains(none.startsIn))
        }
    }

    @Test func `grants a tenant's permits beside those of its queues, each by its own limit`() async throws {
        try await withRate(100, burst: 10) { queue in
            try await queue.run(
                """
                insert into pushq.tenant_pace (tenant_id, rate, burst) select id, 1000, 100 from pushq.tenant;
                update pushq.pace set tat = now() + interval '1 hour';
                update pushq.tenant_pace set tat = clock_timestamp()
                """)
            let tenant = Int32(try await queue.number("select id from pushq.tenant"))
            let granted = try await queue.connection.takePermits(
                [(owner: .queue(queue.id), permits: 5), (owner: .tenant(tenant), permits: 5)],
                horizon: .milliseconds(250))
            #expect(granted.map(\.owner) == [.queue(queue.id), .tenant(tenant)])
            #expect(granted.map(\.count) == [0, 5])
            #expect(granted.map(\.rate) == [100, 1000])
        }
    }

    @Test func `says nothing of queues and tenants without a limit`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let granted = try await queue.connection.takePermits(
                [(owner: .queue(queue.id), permits: 5), (owner: .tenant(1), permits: 5)], horizon: .seconds(1))
            #expect(granted.isEmpty)
        }
    }

    @Test func `stands still for no longer than a permit's time when the clock was set back`() async throws {
        try await withRate(100, burst: 1) { queue in
            try await queue.run("update pushq.pace set tat = now() + interval '1 hour'")
            #expect(try await take(5, of: queue).startsIn <= .milliseconds(260))
            #expect(try await take(5, of: queue, horizon: .seconds(1)).count == 5)
        }
    }
}
