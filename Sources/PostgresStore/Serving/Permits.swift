import QueueCore

extension Statement {
    static let takePermits = takePermits("take_permits", from: "pushq.pace", by: "queue_id")
    static let takeTenantPermits = takePermits("take_tenant_permits", from: "pushq.tenant_pace", by: "tenant_id")

    /// Takes permits from rate limits (GCRA): moves each one's theoretical arrival time on by what it grants.
    ///
    /// `$horizon`: how far ahead permits may lie; `$grace`: how many seconds late a permit may be used. What may be
    /// used late is taken off the burst, so that no second goes over the rate and the burst together.
    private static func takePermits(_ name: String, from table: String, by key: String) -> Statement {
        Statement(
            name,
            #"""
            with asked as materialized (
              select p.\#(key) as id, p.rate, p.burst, p.tat, a.wanted
              from unnest($ids::int[], $wanted::int[]) as a(id, wanted)
              join \#(table) p on p.\#(key) = a.id
              order by p.\#(key)
              -- A limit may be locked by an operator who is changing it; others must not wait for that.
              for no key update of p skip locked),
            room as (
              select id, rate, start,
                     -- Those due by the horizon, the one at `start` itself among them.
                     least(wanted, greatest(0, floor(extract(epoch from clock_timestamp() + $horizon::interval - start) * rate) + 1))::int
                       as granted
              from asked
              -- After a quiet time as many are due at once as the burst allows. No permit was ever granted later than
              -- the horizon: a time beyond it is from before the clock was set back.
              cross join lateral (
                select greatest(
                         least(tat, clock_timestamp() + $horizon::interval + 1 / rate * interval '1 second'),
                         clock_timestamp() - (greatest(burst - $grace::float8 * rate, 0) - 1) / rate * interval '1 second') as start) s)
            update \#(table) p
            set tat = r.start + r.granted / r.rate * interval '1 second'
            from room r
            where p.\#(key) = r.id
            returning r.id, r.granted, p.rate, (extract(epoch from r.start - clock_timestamp()) * 1000000)::bigint as starts_in
            """#)
    }
}

/// Whose rate limit it is.
package enum RateLimitOwner: Hashable, Sendable {
    case queue(Int32)
    /// All queues of a tenant together.
    case tenant(Int32)
}

/// Permits that a rate limit granted.
package struct GrantedPermits: Sendable {
    package let owner: RateLimitOwner
    package let count: Int
    /// Permits a second.
    package let rate: Double
    /// From the database's moment of granting until the first permit's time; below zero by as much as the burst allows.
    package let startsIn: Duration
}

extension PostgresConnection {
    /// Takes up to `wanted` permits from each rate limit, none of them due later than `horizon` from now. Limits that
    /// are not there are missing in the answer, and those that another transaction has locked at this moment.
    package func takePermits(
        _ wanted: [(owner: RateLimitOwner, permits: Int)], horizon: Duration
    ) async throws(PostgresError) -> [GrantedPermits] {
        var (queues, tenants): ([(Int32, Int)], [(Int32, Int)]) = ([], [])
        for (owner, permits) in wanted {
            switch owner {
            case .queue(let id): queues.append((id, permits))
            case .tenant(let id): tenants.append((id, permits))
            }
        }
        return try await take(queues, .takePermits, RateLimitOwner.queue, horizon)
            + take(tenants, .takeTenantPermits, RateLimitOwner.tenant, horizon)
    }

    private func take(
        _ wanted: [(id: Int32, permits: Int)], _ statement: Statement, _ owner: (Int32) -> RateLimitOwner,
        _ horizon: Duration
    ) async throws(PostgresError) -> [GrantedPermits] {
        guard !wanted.isEmpty else { return [] }
        let rows = try await execute(
            statement,
            [
                "ids": .int4Array(wanted.map(\.id)), "wanted": .int4Array(wanted.map { Int32($0.permits) }),
                "horizon": .interval(horizon), "grace": .float8(PermitRun.grace / .seconds(1)),
            ])
        return rows.map { row in
            GrantedPermits(
                owner: owner(row.int4("id")), count: Int(row.int4("granted")), rate: row.float8("rate"),
                startsIn: .microseconds(row.int8("starts_in")))
        }
    }
}
