import PostgresStore
import TestSupport
import Testing
import Transport

/// The moment of the first call, in microseconds since 1970.
private let start: Int64 = 1_900_000_000_000_000

/// Most of these tests pass the time, so that they do not depend on the speed of the machine.
@Suite(.timeLimit(.minutes(10))) struct `Taking permits` {
    private struct Fixture {
        let queue: QueueFixture
        let tenant: Int32

        var ofQueue: RateLimitOwner { .queue(queue.id, ofTenant: tenant) }
        var ofTenant: RateLimitOwner { .tenant(tenant) }

        /// Sets limits that look unused for an hour.
        func limit(
            queue rate: Double? = nil, burst: Double = 1, tenant tenantRate: Double? = nil, tenantBurst: Double = 1
        )
            async throws
        {
            let limits = [(queue.id, rate, burst), (0, tenantRate, tenantBurst)]
            for (id, rate, burst) in limits {
                guard let rate else { continue }
                try await queue.run(
                    """
                    insert into pushq.rate_limit (tenant_id, queue_id, rate, burst, tat)
                    values (\(tenant), \(id), \(rate), \(burst), to_timestamp(\(start / 1_000_000)) - interval '1 hour')
                    """)
            }
        }

        func take(
            _ wanted: Int, of owner: RateLimitOwner, held: Int = 0, share: Double = 1, at milliseconds: Int64 = 0,
            horizon: Duration = .milliseconds(250)
        ) async throws -> GrantedPermits {
            let request = PermitRequest(owner: owner, wanted: wanted, held: held, share: share)
            let granted = try await queue.worker.takePermits(
                [request], horizon: horizon, at: start + milliseconds * 1000)
            return try #require(granted.first)
        }
    }

    private func withTenant(_ body: @escaping @Sendable (Fixture) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let tenant = Int32(try await queue.number("select tenant_id from pushq.queue where id = \(queue.id)"))
            try await body(Fixture(queue: queue, tenant: tenant))
        }
    }

    @Test func `grants the burst at once after a quiet time, then what the rate brings within the horizon`()
        async throws
    {
        try await withTenant { world in
            try await world.limit(queue: 100, burst: 31)
            // Ten of the burst's 31 permits are kept back for permits that are used late. The other 21 include the one
            // due now, and 25 more are due within a quarter of a second. A worker that holds none gets four fifths of
            // these.
            let first = try await world.take(1000, of: world.ofQueue)
            #expect(first.startsIn == .milliseconds(-200))
            #expect(first.count == 36)
            // The worker uses the permits of the burst at once and holds 16.
            let second = try await world.take(1000, of: world.ofQueue, held: 16)
            #expect(second.count == 4)
            #expect(second.startsIn == .milliseconds(160))
            #expect(second.lateness == .milliseconds(100))
        }
    }

    @Test func `grants no more than is wanted, and leaves something to the next who asks`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 100)
            #expect(try await world.take(5, of: world.ofQueue).count == 5)
            #expect(try await world.take(1000, of: world.ofQueue).count == 16)
            #expect(try await world.take(1000, of: world.ofQueue, held: 16).count == 0)
            let other = try await world.take(1000, of: world.ofQueue)
            #expect(other.count == 4)
            #expect(other.startsIn == .milliseconds(210))
        }
    }

    @Test func `grants a slow queue its one permit when it comes within the horizon`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 0.8)
            #expect(try await world.take(1, of: world.ofQueue).count == 1)
            let none = try await world.take(1, of: world.ofQueue)
            #expect(none.count == 0)
            #expect(none.startsIn == .milliseconds(1250))
            #expect(none.againIn == .milliseconds(1125))
            #expect(try await world.take(1, of: world.ofQueue, at: 999).count == 0)
            #expect(try await world.take(1, of: world.ofQueue, at: 1000).count == 1)
        }
    }

    @Test func `grants a queue no permit that is not one of its tenant's, too`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 100, burst: 10, tenant: 20, tenantBurst: 2)
            let first = try await world.take(1000, of: world.ofQueue)
            #expect(first.rate == 20, "the slower one of the two")
            #expect(first.count == 4)
            #expect(first.lateness == .milliseconds(50))
            // The tenant's other queues get what is left.
            let others = try await world.take(1000, of: world.ofTenant)
            #expect(others.count == 1)
            #expect(others.startsIn == .milliseconds(175))
            #expect(try await world.take(1000, of: world.ofQueue, held: 4).count == 0)
        }
    }

    @Test func `takes no permit of a tenant's limit that the queue's does not grant`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 2, tenant: 1000, tenantBurst: 200)
            #expect(try await world.take(10, of: world.ofQueue).count == 1)
            let none = try await world.take(10, of: world.ofQueue)
            #expect(none.count == 0)
            #expect(none.startsIn == .milliseconds(475))
            // The tenant has all its permits but one.
            let others = try await world.take(1000, of: world.ofTenant)
            #expect(others.startsIn == .milliseconds(-99))
        }
    }

    @Test func `takes no permit ahead by which others of the tenant could send before`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 10, tenant: 100, tenantBurst: 10)
            let first = try await world.take(10, of: world.ofQueue)
            #expect(first.count == 1)
            // The queue's next permit is due in 75 ms, and other queues of the tenant may send until then.
            #expect(try await world.take(10, of: world.ofQueue, at: 20).count == 0)
            #expect(try await world.take(10, of: world.ofQueue, at: 60).count == 1)
            let others = try await world.take(1000, of: world.ofTenant, at: 60)
            #expect(others.startsIn == .milliseconds(0))
        }
    }

    @Test func `gives a queue its own rate while the tenant's others take all that there is`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 20, burst: 2, tenant: 200, tenantBurst: 20)
            var (ofQueue, ofOthers) = (0, 0)
            var held = 0
            for step in 0..<400 {
                let now = Int64(step * 25)
                held = max(0, held - 5)
                let others = try await world.take(1000, of: world.ofTenant, held: held, at: now)
                ofOthers += others.count
                held += others.count
                if step.isMultiple(of: 2) { ofQueue += try await world.take(2, of: world.ofQueue, at: now).count }
            }
            // The permits of ten seconds, and a quarter second ahead.
            #expect((196...206).contains(ofQueue), "\(ofQueue)")
            #expect((2040...2060).contains(ofQueue + ofOthers), "\(ofQueue) and \(ofOthers)")
        }
    }

    @Test func `grants a campaign no permit that is not one of its queue's and its tenant's, too`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 100, burst: 10, tenant: 20, tenantBurst: 2)
            let campaign = RateLimitOwner.campaign(5, ofQueue: world.queue.id, ofTenant: world.tenant)
            #expect(try await world.take(1000, of: campaign).rate == 20, "the slowest one")
            try await world.queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, campaign_id, rate, burst)
                values (\(world.tenant), \(world.queue.id), 5, 2, 1)
                """)
            var granted = 0
            for step in 1...100 { granted += try await world.take(1000, of: campaign, at: Int64(step * 100)).count }
            // The permits of ten seconds, and a quarter second ahead.
            #expect((19...21).contains(granted), "\(granted)")
        }
    }

    @Test func `tells of a campaign that there is no limit any more`() async throws {
        try await withTenant { world in
            let campaign = RateLimitOwner.campaign(5, ofQueue: world.queue.id, ofTenant: world.tenant)
            let granted = try await world.take(5, of: campaign)
            #expect(granted.rate == nil)
            #expect(granted.count == 0)
        }
    }

    @Test func `says nothing of a campaign whose app was removed, so that nobody takes it for unlimited`() async throws
    {
        try await withTenant { world in
            let campaign = RateLimitOwner.campaign(5, ofQueue: world.queue.id, ofTenant: world.tenant)
            try await world.queue.run(
                "select pushq.remove_app(tenant, bundle_id) from (select t.name as tenant, a.bundle_id from pushq.app a join pushq.tenant t on t.id = a.tenant_id) x"
            )
            let granted = try await world.queue.worker.takePermits(
                [.init(owner: campaign, wanted: 5)], horizon: .seconds(1))
            #expect(granted.isEmpty)
        }
    }

    @Test func `says nothing of queues and tenants without a limit`() async throws {
        try await withTenant { world in
            let granted = try await world.queue.worker.takePermits(
                [.init(owner: world.ofQueue, wanted: 5), .init(owner: .tenant(77), wanted: 5)], horizon: .seconds(1))
            #expect(granted.isEmpty)
        }
    }

    @Test func `says nothing of a queue while an operator changes its tenant's limit, and takes nothing of its own`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let world = Fixture(queue: queue, tenant: Int32(try await queue.number("select id from pushq.tenant")))
            try await world.limit(queue: 20, tenant: 100)
            let operating = try await database.connect()
            try await operating.runScript("begin; update pushq.rate_limit set rate = 50 where queue_id = 0")
            let request = PermitRequest(owner: world.ofQueue, wanted: 5)
            let granted = try await queue.worker.takePermits([request], horizon: .milliseconds(250))
            #expect(granted.isEmpty)
            try await operating.runScript("rollback")
            #expect(try await world.take(5, of: world.ofQueue).startsIn <= .zero)
        }
    }

    @Test func `stands still for no longer than a permit's time when the clock was set back, or the rate raised`()
        async throws
    {
        try await withTenant { world in
            try await world.limit(queue: 100)
            try await world.queue.run(
                "update pushq.rate_limit set tat = to_timestamp(\(start / 1_000_000 + 3600))")
            #expect(try await world.take(5, of: world.ofQueue).startsIn == .milliseconds(260))
            #expect(try await world.take(5, of: world.ofQueue, horizon: .seconds(1)).count == 5)
        }
    }

    @Test func `goes by the server's clock`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 100, burst: 10)
            let request = PermitRequest(owner: world.ofQueue, wanted: 5)
            // `limit` uses a time in the future.
            try await world.queue.run("update pushq.rate_limit set tat = clock_timestamp() - interval '1 hour'")
            let before = try await world.queue.number("select extract(epoch from clock_timestamp()) * 1000000")
            let granted = try await world.queue.worker.takePermits([request], horizon: .milliseconds(250))
            #expect(granted.map(\.count) == [5])
            #expect(granted.allSatisfy { $0.grantedAt >= Int64(before) })
            #expect(
                try await world.queue.number(
                    """
                    select count(*) from pushq.rate_limit
                    where tat between to_timestamp(\(before) / 1000000.0) and now() + interval '1 minute'
                    """) == 1)
        }
    }

    /// Until it has locked the limits, another worker may take their permits.
    @Test func `goes by the time at which it has locked the limits`() async throws {
        try await withTenant { world in
            try await world.limit(queue: 100)
            let before = try await world.queue.number("select extract(epoch from clock_timestamp()) * 1000000")
            let taken = "to_timestamp(\(before) / 1000000.0) + interval '500 ms'"
            // As if this session stood still for 300 ms, and another one took permits 250 ms ahead meanwhile.
            try await world.queue.run(
                """
                create or replace function pushq.fit_plans() returns void language sql as $$
                  select pg_sleep(0.3);
                  update pushq.rate_limit set tat = \(taken)
                $$
                """)
            let request = PermitRequest(owner: world.ofQueue, wanted: 5)
            let granted = try await world.queue.worker.takePermits([request], horizon: .milliseconds(250))
            #expect(granted.allSatisfy { $0.grantedAt >= Int64(before) + 300_000 })
            #expect(
                try await world.queue.number("select count(*) from pushq.rate_limit where tat >= \(taken)") == 1,
                "the permits that the other one took can be taken again")
        }
    }
}
