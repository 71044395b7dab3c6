import QueueCore

extension HealthCheck {
    static let timeZones = HealthCheck(
        "time_zones", "stored time zones that this server does not know, which are treated as none"
    ) { connection in
        try await connection.execute(.unknownTimeZones).map { row in
            let devices = row.int8("devices")
            let uses = [
                devices > 0 ? "\(row.bool("is_sample") ? "about " : "")\(Int(devices).counted("device"))" : nil,
                row.int8("schedules") > 0 ? Int(row.int8("schedules")).counted("schedule") : nil,
                row.int8("queues") > 0 ? "the settings of \(Int(row.int8("queues")).counted("queue"))" : nil,
            ]
            return HealthFinding(
                .warning, "time zone \(row.text("time_zone"))",
                "is unknown to this server, and is that of \(uses.compactMap(\.self).joined(separator: ", "))",
                .advice("update the time zone data of PostgreSQL's server (tzdata), and restart PostgreSQL"))
        }
    }
}

extension Statement {
    /// The unknown time zones in use. Of a large table, the statement reads a random sample of its pages: about 160 MB
    /// at most.
    fileprivate static let unknownTimeZones = Statement(
        "unknown_time_zones",
        #"""
        with size as materialized (
          select least(100, 20000 * 100.0 / greatest(1, pg_relation_size('pushq.profile') / 8192))::float8 as percent),
        used as (
          select p.time_zone, count(*) as devices, 0::bigint as schedules, 0::bigint as queues
          from pushq.profile p tablesample system ((select percent from size))
          where p.time_zone is not null
          group by p.time_zone
          union all
          select s.time_zone, 0, count(*), 0 from pushq.schedule s group by s.time_zone
          union all
          select z.time_zone, 0, 0, count(distinct z.queue_id)
          from (
            select queue_id, time_zone from pushq.quiet_hours
            union all
            select queue_id, time_zone from pushq.frequency_cap) z
          where z.time_zone is not null
          group by z.time_zone),
        zone as materialized (
          select u.time_zone, sum(u.devices) as devices, sum(u.schedules) as schedules, sum(u.queues) as queues
          from used u
          group by u.time_zone)
        select z.time_zone, round(z.devices * 100 / s.percent)::bigint as devices, s.percent < 100 as is_sample,
               z.schedules::bigint as schedules, z.queues::bigint as queues
        from zone z
        cross join size s
        where pushq.known_zone(z.time_zone) is null
        order by z.devices desc, z.time_zone
        limit \#(HealthCheck.queryLimit)
        """#)
}
