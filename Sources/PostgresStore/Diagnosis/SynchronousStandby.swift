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
    /// Looks at the messages of today and yesterday, which have those of all jobs that were made since then. Many may
    /// lie before the first one that is sent at most once. So of more than 16 MB, the statement reads a random sample
    /// of their pages. Jobs that were made earlier may still wait: it reads at most ten thousand of those that wait,
    /// and as many of those that are held.
    fileprivate static let synchronousStandby = Statement(
        "synchronous_standby",
        #"""
        with size as materialized (
          select least(100, 2000 * 100.0 / greatest(1, coalesce(sum(pg_relation_size(to_regclass(
                   'pushq.message' || to_char(pushq.today() - n, '_YYYYMMDD')))), 0) / 8192))::float8 as percent
          from generate_series(0, 1) n),
        latest as materialized (
          select m.at_most_once
          from pushq.message m tablesample system ((select percent from size))
          where m.day >= pushq.today() - 1)
        select pushq.has_synchronous_standby() as is_synchronous,
               (select count(*) from pg_stat_replication) as standbys,
               exists (select from latest m where m.at_most_once)
                 or exists (select from (select at_most_once from pushq.lease limit 10000) l where l.at_most_once)
                 or exists (select from (select at_most_once from pushq.job limit 10000) j where j.at_most_once)
                 as has_at_most_once
        """#)
}
