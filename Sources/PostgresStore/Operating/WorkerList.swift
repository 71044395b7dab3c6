package import FoundationEssentials

extension Statement {
    static let workers = Statement(
        "workers",
        #"""
        select w.id, w.name, w.version, w.started_at, w.seen_at, w.draining,
               exists (
                 select from pushq.sleeper s
                 where s.worker_id = w.id and pushq.is_asleep(s.since)) as is_asleep,
               w.queues, w.in_flight,
               w.jobs, w.recipients, w.connections, w.streams, cardinality(w.unreachable) as unreachable,
               cardinality(w.in_outage) as in_outage, w.prevention,
               coalesce(extract(epoch from now() - w.seen_at), 0)::float8 as silent_seconds
        from pushq.worker w
        order by w.name, w.id
        """#)
}

/// The state of a worker in one word.
package enum WorkerState: String, CaseIterable, Sendable {
    case sending, refused, holding, idle, asleep, draining, silent
}

/// A worker as an operator sees it, according to its last heartbeat.
package struct WorkerSummary: Sendable {
    package let id: Int64
    /// Host and process.
    package let name: String
    package let version: String
    package let startedAt: Date
    package let seenAt: Date
    package let isDraining: Bool
    /// Whether it found nothing to claim and waits for a notification.
    package let isAsleep: Bool
    package let heldJobs: Int
    package let heldRecipients: Int
    /// The pattern of the queues that it serves.
    package let queues: String
    /// Requests that waited for an answer.
    package let inFlight: Int
    /// Connections to APNs, and how many requests they accept at once.
    package let connections: Int
    package let streams: Int
    /// Queues for which it could not reach APNs, and queues for which APNs refused most pushes.
    package let unreachableQueues: Int
    package let queuesInOutage: Int
    /// What PostgreSQL refuses it, so that it does not send; nil if it refuses nothing.
    package let prevention: String?
    /// How long ago its last heartbeat was, by the clock of the database.
    package let silence: Duration

    /// Whether the worker may be gone. A worker writes a heartbeat every five seconds; a silent one has missed three. A
    /// worker whose last heartbeat is in the future is silent, too: the clock was set back since then.
    package var isSilent: Bool { silence > .seconds(16) || silence < .seconds(-20) }

    /// The state of the worker. It sleeps only while it holds nothing, however long it has waited for more work. The
    /// last heartbeat of a silent worker does not say what it does now.
    package var state: WorkerState {
        if isSilent { return .silent }
        if isDraining { return .draining }
        if prevention != nil { return .refused }
        if inFlight > 0 { return .sending }
        if heldRecipients > 0 { return .holding }
        return isAsleep ? .asleep : .idle
    }
}

extension Statement {
    fileprivate static let readsWorkers = Statement("reads_workers", "select from pushq.worker limit 1")
}

extension PostgresConnection {
    /// Throws unless this login may look at all workers: it belongs to an operator or a worker. Unlike the list of
    /// workers, this also succeeds on a standby.
    package func checkReadsWorkers() async throws(PostgresError) {
        _ = try await execute(.readsWorkers)
    }

    /// Returns all workers with a recent heartbeat.
    package func workers() async throws(PostgresError) -> [WorkerSummary] {
        try await execute(.workers).map { row in
            WorkerSummary(
                id: row.int8("id"), name: row.text("name"), version: row.text("version"),
                startedAt: row.time("started_at"),
                seenAt: row.time("seen_at"), isDraining: row.bool("draining"), isAsleep: row.bool("is_asleep"),
                heldJobs: Int(row.int4("jobs")), heldRecipients: Int(row.int4("recipients")),
                queues: row.text("queues"), inFlight: Int(row.int4("in_flight")),
                connections: Int(row.int4("connections")), streams: Int(row.int4("streams")),
                unreachableQueues: Int(row.int4("unreachable")), queuesInOutage: Int(row.int4("in_outage")),
                prevention: row.optionalText("prevention"),
                silence: .seconds(row.float8("silent_seconds")))
        }
    }
}
