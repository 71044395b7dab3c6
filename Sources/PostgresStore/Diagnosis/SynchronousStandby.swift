import QueueCore

extension HealthCheck {
    static let standby = HealthCheck(
        "standby", "messages that may be sent at most once, and a standby that may not know that they were sent"
    ) { connection in
        let row = try await connection.execute(.synchronousStandby).one()
        guard row.bool("has_at_most_once"), !row.bool("is_synchronous") else { return [] }
        let standbys = Int(row.int8("standbys"))
        guard standbys > 0 else {
            return [
                HealthFinding(
                    .note, "server",
                    "has no standby, and messages are sent at most once: after the loss of its disk, a backup sends them again",
                    .advice("run a synchronous standby: docs/operating.md, With a standby"))
            ]
        }
        return [
            HealthFinding(
                .warning, "server",
                "has \(standbys.counted("standby")), none of them synchronous, and messages are sent at most once: "
                    + "after a failover they may be sent twice",
                .sql("alter system set synchronous_standby_names = '*';", then: ["select pg_reload_conf();"]))
        ]
    }
}

extension Statement {
    /// Reads at most ten thousand rows of each table.
    fileprivate static let synchronousStandby = Statement(
        "synchronous_standby",
        #"""
        select pushq.has_synchronous_standby() as is_synchronous,
               (select count(*) from pg_stat_replication) as standbys,
               (select coalesce(bool_or(at_most_once), false) from (
                  (select at_most_once from pushq.lease limit 10000)
                  union all
                  (select at_most_once from pushq.job limit 10000)
                  union all
                  (select at_most_once from pushq.message where day >= pushq.today() - 1 limit 10000)) m)
                 as has_at_most_once
        """#)
}
