package import FoundationEssentials

extension Statement {
    static let workers = Statement(
        "workers",
        #"""
        select w.incarnation, w.name, w.version, w.started_at, w.seen_at, w.draining,
               exists (select from pushq.sleeper s where s.incarnation = w.incarnation),
               count(l.job_id), coalesce(sum(l.recipient_count), 0)::bigint
        from pushq.worker w left join pushq.lease l on l.owner = w.incarnation
        group by w.incarnation
        order by w.name, w.incarnation
        """#)
}

/// A worker as an operator sees it.
package struct WorkerSummary: Sendable {
    package let incarnation: Int64
    /// Host and process.
    package let name: String
    package let version: String
    package let startedAt: Date
    package let seenAt: Date
    package let isDraining: Bool
    /// It has nothing to do and waits to be woken.
    package let isAsleep: Bool
    package let heldJobs: Int
    package let heldRecipients: Int
}

extension PostgresConnection {
    /// All workers that have shown themselves of late.
    package func workers() async throws(PostgresError) -> [WorkerSummary] {
        try await execute(.workers, []).map { row in
            WorkerSummary(
                incarnation: row.int8(0), name: row.text(1), version: row.text(2), startedAt: row.time(3),
                seenAt: row.time(4), isDraining: row.bool(5), isAsleep: row.bool(6), heldJobs: Int(row.int8(7)),
                heldRecipients: Int(row.int8(8)))
        }
    }
}
