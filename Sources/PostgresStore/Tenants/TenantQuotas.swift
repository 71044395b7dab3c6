package import FoundationEssentials

extension Statement {
    /// Null leaves a quota unchanged; -1 removes it.
    fileprivate static let setTenantQuota = Statement(
        "set_tenant_quota",
        #"""
        insert into pushq.tenant_quota as o (
          tenant_id, max_devices, max_waiting, max_day_bytes, max_calls, max_campaigns,
          max_schedules)
        select t.id, nullif($devices::bigint, -1), nullif($waiting::bigint, -1), nullif($day_bytes::bigint, -1),
               nullif($calls::int, -1), nullif($campaigns::int, -1), nullif($schedules::int, -1)
        from pushq.tenant t
        where t.name = $name
        on conflict on constraint tenant_quota_pkey do update set
          max_devices = case when $devices is null then o.max_devices else excluded.max_devices end,
          max_waiting = case when $waiting is null then o.max_waiting else excluded.max_waiting end,
          max_day_bytes = case when $day_bytes is null then o.max_day_bytes else excluded.max_day_bytes end,
          max_calls = case when $calls is null then o.max_calls else excluded.max_calls end,
          max_campaigns = case when $campaigns is null then o.max_campaigns else excluded.max_campaigns end,
          max_schedules = case when $schedules is null then o.max_schedules else excluded.max_schedules end
        returning tenant_id
        """#)

    /// Deletes the row if it has no quota, so that nothing is counted for the tenant.
    fileprivate static let dropEmptyQuota = Statement(
        "drop_empty_quota",
        #"""
        delete from pushq.tenant_quota
        where tenant_id = $tenant_id
          and coalesce(max_devices, max_waiting, max_day_bytes, max_calls, max_campaigns, max_schedules) is null
        """#)

    fileprivate static let tenantUsage = Statement(
        "tenant_usage",
        #"""
        select o.max_devices, o.max_waiting, o.max_day_bytes, o.max_calls::bigint, o.max_campaigns::bigint,
               o.max_schedules::bigint, u.devices, u.waiting, u.counted_at,
               case when u.bytes_day = pushq.today() then u.bytes else 0 end as day_bytes,
               (select count(*) * pushq.call_weight(o.max_calls)
                from pushq.call c
                where c.tenant_id = t.id and c.called_at > now() - interval '1 second'
                  and c.called_at <= now() + interval '1 second') as calls,
               (select count(*)
                from pushq.queue q
                join pushq.fan_out f on f.queue_id = q.id and not f.done
                where q.tenant_id = t.id) as campaigns,
               (select count(*)
                from pushq.queue q
                join pushq.schedule s on s.queue_id = q.id
                where q.tenant_id = t.id) as schedules
        from pushq.tenant t
        join pushq.tenant_quota o on o.tenant_id = t.id
        left join pushq.last_usage(t.id) u on true
        where t.name = $name
        """#)

    fileprivate static let tenantID = Statement("tenant_id", "select id from pushq.tenant where name = $name")
}

/// The maximum that a tenant may have of something.
package enum Quota: Equatable, Sendable {
    case limit(Int64)
    case none

    fileprivate var stored: Int64 { number ?? -1 }

    /// The number; nil for no limit.
    var number: Int64? {
        switch self {
        case .limit(let number): number
        case .none: nil
        }
    }
}

/// Quotas to set; nil leaves a quota unchanged.
package struct QuotaChange: Sendable, Equatable {
    /// Active devices of all queues together.
    package var devices: Quota?
    /// Recipients in jobs and lists that have not been sent to.
    package var waiting: Quota?
    /// Bytes of payload per day (UTC).
    package var dayBytes: Quota?
    /// Calls of the producers' functions per second: 1 to 1,000,000.
    package var calls: Quota?
    /// Campaigns that have not put all their recipients into jobs.
    package var campaigns: Quota?
    /// Schedules, including paused ones.
    package var schedules: Quota?

    /// No change.
    package init() {}

    /// Whether it changes nothing.
    package var isEmpty: Bool { self == QuotaChange() }
}

/// How much of its quotas a tenant uses. Only what has a quota is counted.
package struct TenantUsage: Sendable {
    package struct Part: Sendable, Equatable {
        package let used: Int
        package let quota: Int
    }

    package let devices: Part?
    package let waiting: Part?
    package let dayBytes: Part?
    package let calls: Part?
    package let campaigns: Part?
    package let schedules: Part?
    /// When devices, waiting recipients and bytes were counted. The other numbers are current.
    package let countedAt: Date?
}

extension PostgresConnection {
    /// Changes quotas of a tenant, and counts what it uses. Returns false if there is no such tenant. Call it in a
    /// transaction.
    func setQuotas(_ change: QuotaChange, of tenant: String) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "name": .text(tenant), "devices": .int8(change.devices?.stored), "waiting": .int8(change.waiting?.stored),
            "day_bytes": .int8(change.dayBytes?.stored),
            "calls": .int4(change.calls.map { Int32(clamping: $0.stored) }),
            "campaigns": .int4(change.campaigns.map { Int32(clamping: $0.stored) }),
            "schedules": .int4(change.schedules.map { Int32(clamping: $0.stored) }),
        ]
        guard let id = try await execute(.setTenantQuota, parameters).first?.int4("tenant_id") else { return false }
        _ = try await execute(.dropEmptyQuota, ["tenant_id": .int4(id)])
        try await countAnew(tenantID: id)
        return true
    }

    /// Counts again how much of its quotas a tenant uses, and returns it; nil if it has no quotas.
    package func usage(of tenant: String) async throws(PostgresError) -> TenantUsage? {
        guard let id = try await execute(.tenantID, ["name": .text(tenant)]).first?.int4("id") else { return nil }
        try await countAnew(tenantID: id)
        return try await execute(.tenantUsage, ["name": .text(tenant)]).first.map(TenantUsage.init)
    }

    private func countAnew(tenantID: Int32) async throws(PostgresError) {
        _ = try await execute(.tenantsToCount)
        _ = try await execute(
            .countUsage, ["tenant_id": .int4(tenantID), "anew": .bool(true)], within: Self.fileLimit)
    }
}

extension TenantUsage {
    fileprivate init(_ row: Row) {
        func part(_ used: Int64?, of quota: Int64?) -> Part? {
            quota.map { Part(used: Int(used ?? 0), quota: Int($0)) }
        }
        self.init(
            devices: part(row.optionalInt8("devices"), of: row.optionalInt8("max_devices")),
            waiting: part(row.optionalInt8("waiting"), of: row.optionalInt8("max_waiting")),
            dayBytes: part(row.optionalInt8("day_bytes"), of: row.optionalInt8("max_day_bytes")),
            calls: part(row.optionalInt8("calls"), of: row.optionalInt8("max_calls")),
            campaigns: part(row.optionalInt8("campaigns"), of: row.optionalInt8("max_campaigns")),
            schedules: part(row.optionalInt8("schedules"), of: row.optionalInt8("max_schedules")),
            countedAt: row.optionalTime("counted_at"))
    }
}
