package import FoundationEssentials

extension Statement {
    static let workers = Statement(
        "workers",
        #"""
        select w.id, w.name, w.version, w.started_at, w.seen_at, w.draining,
               exists (select from pushq.sleeper s where s.worker_id = w.id) as is_asleep,
               count(l.job_id) as jobs, coalesce(sum(l.recipient_count), 0)::bigint as recipients, w.queues, w.in_flight
        from pushq.worker w left join pushq.lease l on l.worker_id = w.id
        group by w.id
        order by w.name, w.id
        """#)
}

/// A worker as an operator sees it.
package struct WorkerSummary: Sendable {
    package let id: Int64
    /// Host and process.
    package let name: String
    package let version: String
    package let startedAt: Date
    package let seenAt: Date
    package let isDraining: Bool
    /// It has found nothing to claim and waits to be woken.
    package let isAsleep: Bool
    package let heldJobs: Int
    package let heldRecipients: Int
    /// The pattern of the queues that it serves.
    package let queues: String
    /// Requests that waited for their answer when it was last seen.
    package let inFlight: Int

    /// What it is at, in one word: it sleeps only when it holds nothing, however long it has waited for more.
    package var state: String {
        if isDraining { return "draining" }
        if inFlight > 0 { return "sending" }
        if heldRecipients > 0 { return "holding" }
        return isAsleep ? "asleep" : "idle"
    }
}

extension PostgresConnection {
    /// All workers that have shown themselves of late.
    package func workers() async throws(PostgresError) -> [WorkerSummary] {
        try await execute(.workers).map { row in
            WorkerSummary(
                id: row.int8("id"), name: row.text("name"), version: row.text("version"),
                startedAt: row.time("started_at"),
                seenAt: row.time("seen_at"), isDraining: row.bool("draining"), isAsleep: row.bool("is_asleep"),
                heldJobs: row.count("jobs"),
                heldRecipients: row.count("recipients"), queues: row.text("queues"),
                inFlight: Int(row.int4("in_flight")))
        }
    }
}
