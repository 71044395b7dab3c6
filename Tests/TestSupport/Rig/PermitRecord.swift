package import PostgresStore

/// What the rate limits of a database have granted, as the database itself has noted it. A busy machine changes none of
/// these times: it may only be that permits are asked for late, or not used.
package struct PermitRecord: Sendable {
    /// The permits of one line of an answer of `pushq.take_permits`.
    package struct Grant: Sendable {
        package let tenantID: Int32
        /// 0: the permits are for those queues of the tenant that have no limit of their own.
        package let queueID: Int32
        /// 0: the permits are not for a campaign alone.
        package let campaignID: Int64
        let count: Int
        /// Permits per second.
        let rate: Double
        /// In microseconds since 1970.
        let grantedAt: Int
        /// The time of the first permit after the grant, in microseconds.
        let startsIn: Int

        /// The times from which the permits may be used. Those of the burst may be used at once.
        fileprivate var times: [Int] {
            (0..<count).map { grantedAt + max(0, startsIn + Int(Double($0) / rate * 1e6)) }
        }
    }

    /// All grants, in the order of their times.
    package let grants: [Grant]

    /// Lets the database note what it grants. Has to be run before the first worker starts.
    package static let keeping = """
        create table public.granted_permits (
          tenant_id int, queue_id int, campaign_id bigint, granted int, rate float8, starts_in bigint,
          granted_at timestamptz);
        grant insert on public.granted_permits to public;
        alter function pushq.take_permits rename to take_permits_unnoted;
        create function pushq.take_permits(
          tenants int[], queues int[], campaigns bigint[], wanted int[], held int[], shares float8[], horizon interval,
          lateness interval, moment timestamptz default null
        ) returns table (tenant_id int, queue_id int, campaign_id bigint, granted int, rate float8, starts_in bigint,
                         late bigint, again_in bigint, granted_at timestamptz)
        language sql as $$
          with answer as materialized (
            select a.*
            from pushq.take_permits_unnoted(
              tenants, queues, campaigns, wanted, held, shares, horizon, lateness, moment) a),
          noted as (
            insert into public.granted_permits
            select a.tenant_id, a.queue_id, a.campaign_id, a.granted, a.rate, a.starts_in, a.granted_at
            from answer a
            where a.granted > 0)
          select a.* from answer a
        $$;
        grant execute on function pushq.take_permits to public;
        """

    private static let statement = Statement(
        "granted_permits",
        """
        select tenant_id, queue_id, campaign_id, granted, rate, starts_in, granted_at
        from public.granted_permits
        order by granted_at
        """)

    /// Reads the record.
    package init(from store: PostgresConnection) async throws {
        grants = try await store.execute(Self.statement, within: .seconds(60)).map { row in
            Grant(
                tenantID: row.int4("tenant_id"), queueID: row.int4("queue_id"), campaignID: row.int8("campaign_id"),
                count: Int(row.int4("granted")), rate: row.float8("rate"),
                grantedAt: Int(row.timestamptz("granted_at")), startsIn: row.count("starts_in"))
        }
    }

    /// The times from which the permits of some grants may be used, ascending, in microseconds since 1970.
    package func times(where isMeant: (Grant) -> Bool = { _ in true }) -> [Int] {
        grants.filter(isMeant).flatMap(\.times).sorted()
    }
}
