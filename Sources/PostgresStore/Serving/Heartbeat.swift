extension Statement {
    /// Writes the row of a worker. Also deletes the rows of workers that have shown no sign of life for a minute. The
    /// throughput replaces what the worker reported for its queues before.
    ///
    /// A row that was written before the database's clock was set back claims that its worker is alive until that time.
    /// The statement sets its time to now; a live worker writes its row again. It deletes such rows of sleepers, which
    /// every producer would notify until that time.
    static let showWorker = Statement(
        "show_worker",
        #"""
        with ahead as (
          update pushq.worker w
          set seen_at = now()
          from (
            select id
            from pushq.worker
            where seen_at > now() + interval '20 seconds' and id <> $id
            for update skip locked) a
          where w.id = a.id),
        gone as (
          delete from pushq.worker
          where seen_at < now() - interval '1 minute' and id <> $id
          returning id),
        woken as (
          delete from pushq.sleeper where since > now() + interval '1 minute'),
        quiet as (
          delete from pushq.throughput t
          where t.worker_id in (select id from gone)
            or t.worker_id = $id and t.queue_id <> all ($sent_queues::int[])),
        busy as (
          insert into pushq.throughput (worker_id, queue_id, seconds, sent, in_flight, accepted, unanswered, refused,
                                        latency)
          select $id, s.queue_id, $seconds::float8, s.sent, s.in_flight, s.accepted, s.unanswered, s.refused::int[],
                 s.latency::int[]
          from unnest($sent_queues::int[], $sent::int[], $sent_in_flight::int[], $accepted::int[], $unanswered::int[],
                      $refused::text[], $latency::text[])
            as s(queue_id, sent, in_flight, accepted, unanswered, refused, latency)
          -- A worker may still have figures of a queue that is gone.
          join pushq.queue q on q.id = s.queue_id
          on conflict (worker_id, queue_id) do update
            set shown_at = now(), seconds = excluded.seconds, sent = excluded.sent, in_flight = excluded.in_flight,
                accepted = excluded.accepted, unanswered = excluded.unanswered, refused = excluded.refused,
                latency = excluded.latency)
        insert into pushq.worker (id, name, version, started_at, draining, queues, in_flight, jobs, recipients,
                                  connections, streams, unreachable, in_outage, refusals, unusable, faults, prevention)
        values ($id, $name, $version, now() - $uptime::interval, $draining, $queues, $in_flight, $jobs, $recipients,
                $connections, $streams, $unreachable, $in_outage, $refusals, $unusable, $faults, $prevention)
        on conflict (id) do update
          set seen_at = now(), draining = excluded.draining, in_flight = excluded.in_flight, jobs = excluded.jobs,
              recipients = excluded.recipients, connections = excluded.connections, streams = excluded.streams,
              unreachable = excluded.unreachable, in_outage = excluded.in_outage, refusals = excluded.refusals,
              unusable = excluded.unusable, faults = excluded.faults, prevention = excluded.prevention
        returning (
          select m.name
          from pushq.migration m
          where m.version > $newest_known and m.stops_older_workers
          order by m.version
          limit 1) as stopped_by
        """#)
    static let removeWorker = Statement(
        "remove_worker",
        #"""
        with woken as (
          delete from pushq.sleeper where worker_id = $id and pushq.is_asleep(since)),
        quiet as (delete from pushq.throughput where worker_id = $id)
        delete from pushq.worker where id = $id
        """#)
}

/// What a worker reports about itself.
package struct WorkerReport: Sendable {
    /// The worker's host and process.
    package var name: String
    package var version = ""
    /// The time since the worker started. It is stored where the worker has no row: at its first heartbeat, and after
    /// other workers have deleted the row, as after an outage of a minute.
    package var uptime = Duration.zero
    /// The pattern of the queues that the worker serves.
    package var queues = "*"
    package var isDraining = false
    /// The number of requests that wait for their answer.
    package var inFlight = 0
    /// The jobs that the worker holds, and all of their recipients, sent to or not.
    package var heldJobs = 0
    package var heldRecipients = 0
    /// The number of connections to APNs, and the number of requests that they can take at once: those in flight and
    /// the free ones.
    package var connections = 0
    package var streams = 0
    /// The queues for which the worker cannot reach APNs.
    package var unreachable: [Int32] = []
    /// The queues for which APNs refuses most pushes for transient reasons, or answers none, with its answer.
    package var inOutage: [Trouble] = []
    /// The queues whose credential the worker cannot use, with the reason.
    package var unusable: [Trouble] = []
    /// What PostgreSQL refuses the worker, so that it does not send, and why: the ends of jobs, or what it needs
    /// before. Nil if it refuses nothing.
    package var prevention: String?
    /// What the worker sent since its last heartbeat, and how long ago that was. Queues for which it sent nothing are
    /// missing.
    package var throughput: [Throughput] = []
    package var interval = Duration.seconds(5)

    package init(name: String) {
        self.name = name
    }

    /// A queue for which nothing can be sent, and why.
    package struct Trouble: Equatable, Sendable {
        package let queueID: Int32
        package let reason: String

        package init(queueID: Int32, reason: String) {
            self.queueID = queueID
            self.reason = reason
        }
    }
}

extension PostgresConnection {
    /// Writes a worker's heartbeat, which shows operators the worker and that it is alive. Other workers base no
    /// decision on it.
    /// - Returns: why this worker must stop; nil if it may continue.
    @discardableResult
    package func showWorker(_ id: Int64, _ worker: WorkerReport) async throws(PostgresError) -> SchemaMismatch? {
        let parameters: Parameters = [
            "id": .int8(id), "name": .text(worker.name), "version": .text(worker.version),
            "uptime": .interval(worker.uptime), "draining": .bool(worker.isDraining), "queues": .text(worker.queues),
            "in_flight": .int4(Int32(clamping: worker.inFlight)), "jobs": .int4(Int32(clamping: worker.heldJobs)),
            "recipients": .int4(Int32(clamping: worker.heldRecipients)),
            "connections": .int4(Int32(clamping: worker.connections)),
            "streams": .int4(Int32(clamping: worker.streams)), "unreachable": .int4Array(worker.unreachable),
            "in_outage": .int4Array(worker.inOutage.map(\.queueID)),
            "refusals": .textArray(worker.inOutage.map(\.reason)),
            "unusable": .int4Array(worker.unusable.map(\.queueID)),
            "faults": .textArray(worker.unusable.map(\.reason)), "prevention": .text(worker.prevention),
            "newest_known": .int4(SchemaMismatch.newestKnown),
            // An interval of zero would make the rate infinite.
            "seconds": .float8(max(0.001, worker.interval / .seconds(1))),
        ]
        let rows = try await execute(.showWorker, parameters + Throughput.parameters(of: worker.throughput))
        return try rows.one().optionalText("stopped_by").map { .olderWorker(stoppedBy: $0) }
    }

    /// Deletes the worker's row.
    package func removeWorker(_ id: Int64) async throws(PostgresError) {
        _ = try await execute(.removeWorker, ["id": .int8(id)])
    }
}
