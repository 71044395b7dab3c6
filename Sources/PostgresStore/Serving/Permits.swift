import QueueCore

extension Statement {
    /// Takes permits from rate limits: see `pushq.take_permits`.
    static let takePermits = Statement(
        "take_permits",
        #"""
        select tenant_id, queue_id, campaign_id, granted, rate, starts_in, late, again_in, granted_at
        from pushq.take_permits($tenants, $queues, $campaigns, $wanted, $held, $shares, $horizon, $lateness, $moment)
        """#)

    static let clock = Statement("clock", "select clock_timestamp() as now")
}

/// The owner of a rate limit. A line with several limits takes permits of the innermost limit; each permit counts
/// against all of them.
package struct RateLimitOwner: Hashable, Sendable {
    package let tenantID: Int32
    /// 0: the limit is for all queues of the tenant together.
    package let queueID: Int32
    /// 0: the limit is for all pushes of the queue.
    package let campaignID: Int64

    package static func tenant(_ id: Int32) -> RateLimitOwner { .init(tenantID: id, queueID: 0, campaignID: 0) }

    package static func queue(_ id: Int32, ofTenant tenantID: Int32) -> RateLimitOwner {
        .init(tenantID: tenantID, queueID: id, campaignID: 0)
    }

    package static func campaign(_ id: Int64, ofQueue queueID: Int32, ofTenant tenantID: Int32) -> RateLimitOwner {
        .init(tenantID: tenantID, queueID: queueID, campaignID: id)
    }
}

/// A worker's request for permits of one limit and of the limits around it.
package struct PermitRequest: Equatable, Sendable {
    package let owner: RateLimitOwner
    /// The number of permits that the worker can use.
    package let wanted: Int
    /// The number of permits that the worker has and has not used yet.
    package let held: Int
    /// The request's weight among the requests for the same tenant; the heaviest has 1.
    package let share: Double

    package init(owner: RateLimitOwner, wanted: Int, held: Int = 0, share: Double = 1) {
        self.owner = owner
        self.wanted = wanted
        self.held = held
        self.share = share
    }
}

/// The permits that rate limits granted.
package struct GrantedPermits: Sendable {
    package let owner: RateLimitOwner
    package let count: Int
    /// Permits per second; nil: the owner is a campaign, and no limit applies to it any more.
    package let rate: Double?
    /// The time from the grant, on the database's clock, to the first permit's time; negative by as much as the burst
    /// allows.
    package let startsIn: Duration
    /// How long after its time each permit may be used.
    package let lateness: Duration
    /// When it is worth asking again.
    package let againIn: Duration
    /// The moment of the grant in microseconds since 1970, by the database's clock. It is the same for all grants of an
    /// answer.
    package let grantedAt: Int64

    package init(
        owner: RateLimitOwner, count: Int, rate: Double?, startsIn: Duration, lateness: Duration, againIn: Duration,
        grantedAt: Int64
    ) {
        self.owner = owner
        self.count = count
        self.rate = rate
        self.startsIn = startsIn
        self.lateness = lateness
        self.againIn = againIn
        self.grantedAt = grantedAt
    }
}

extension PostgresConnection {
    /// Returns the database's time in microseconds since 1970, which decides when permits may be used.
    package func clock() async throws(PostgresError) -> Int64 {
        try await execute(.clock).one().timestamptz("now")
    }

    /// Takes permits from rate limits, none of them due later than `horizon` from now. Leaves out requests that have no
    /// limit, and requests for a limit that another transaction has locked at this moment.
    /// - Parameter moment: the present time in microseconds since 1970; nil: the server's time.
    package func takePermits(
        _ requests: [PermitRequest], horizon: Duration, at moment: Int64? = nil
    ) async throws(PostgresError) -> [GrantedPermits] {
        let rows = try await execute(
            .takePermits,
            [
                "tenants": .int4Array(requests.map(\.owner.tenantID)),
                "queues": .int4Array(requests.map(\.owner.queueID)),
                "campaigns": .int8Array(requests.map(\.owner.campaignID)),
                "wanted": .int4Array(requests.map { Int32($0.wanted) }),
                "held": .int4Array(requests.map { Int32($0.held) }), "shares": .float8Array(requests.map(\.share)),
                "horizon": .interval(horizon), "lateness": .interval(PermitRun.lateness),
                "moment": .timestamptz(moment),
            ])
        return rows.map { row in
            GrantedPermits(
                owner: RateLimitOwner(
                    tenantID: row.int4("tenant_id"), queueID: row.int4("queue_id"),
                    campaignID: row.int8("campaign_id")),
                count: Int(row.int4("granted")), rate: row.optionalFloat8("rate"),
                startsIn: .microseconds(row.int8("starts_in")), lateness: .microseconds(row.int8("late")),
                againIn: .microseconds(row.int8("again_in")), grantedAt: row.timestamptz("granted_at"))
        }
    }
}
