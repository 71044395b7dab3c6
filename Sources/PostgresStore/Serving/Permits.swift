import QueueCore

extension Statement {
    /// Takes permits from the rate limits of queues (GCRA): moves each queue's theoretical arrival time on by what it grants.
    ///
    /// `$horizon`: how far ahead permits may lie; `$grace`: how many seconds late a permit may be used. What may be used late is
    /// taken off the burst, so that no second goes over the rate and the burst together.
    static let takePermits = Statement(
        "take_permits",
        #"""
        with asked as materialized (
          select p.queue_id, p.rate, p.burst, p.tat, a.wanted
          from unnest($queue_ids::int[], $wanted::int[]) as a(queue_id, wanted)
          join pushq.pace p on p.queue_id = a.queue_id
          order by p.queue_id
          -- The limit of a queue may be locked by whoever is changing it; others must not wait for that.
          for no key update of p skip locked),
        room as (
          select queue_id, rate, start,
                 -- Those due by the horizon, the one at `start` itself among them.
                 least(wanted, greatest(0, floor(extract(epoch from clock_timestamp() + $horizon::interval - start) * rate) + 1))::int
                   as granted
          from asked
          -- After a quiet time as many are due at once as the burst allows. No permit was ever granted later than the horizon: a time
          -- beyond it is from before the clock was set back.
          cross join lateral (
            select greatest(
                     least(tat, clock_timestamp() + $horizon::interval + 1 / rate * interval '1 second'),
                     clock_timestamp() - (greatest(burst - $grace::float8 * rate, 0) - 1) / rate * interval '1 second') as start) s)
        update pushq.pace p
        set tat = r.start + r.granted / r.rate * interval '1 second'
        from room r
        where p.queue_id = r.queue_id
        returning p.queue_id, r.granted, p.rate, (extract(epoch from r.start - clock_timestamp()) * 1000000)::bigint as starts_in
        """#)
}

/// Permits that a queue's rate limit granted.
package struct GrantedPermits: Sendable {
    package let queueID: Int32
    package let count: Int
    /// Permits a second.
    package let rate: Double
    /// From the database's moment of granting until the first permit's time; below zero by as much as the burst allows.
    package let startsIn: Duration
}

extension PostgresConnection {
    /// Takes up to `wanted` permits for each queue, none of them due later than `horizon` from now. Queues without a limit are
    /// missing in the answer, and those whose limit another transaction has locked at this moment.
    package func takePermits(
        _ wanted: [(queueID: Int32, permits: Int)], horizon: Duration
    ) async throws(PostgresError) -> [GrantedPermits] {
        let rows = try await execute(
            .takePermits,
            [
                "queue_ids": .int4Array(wanted.map(\.queueID)), "wanted": .int4Array(wanted.map { Int32($0.permits) }),
                "horizon": .interval(horizon), "grace": .float8(PermitRun.grace / .seconds(1)),
            ])
        return rows.map { row in
            GrantedPermits(
                queueID: row.int4("queue_id"), count: Int(row.int4("granted")), rate: row.float8("rate"),
                startsIn: .microseconds(row.int8("starts_in"))
            )
        }
    }
}
