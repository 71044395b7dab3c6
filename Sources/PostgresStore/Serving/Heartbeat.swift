extension Statement {
    /// Also deletes the rows of workers that have shown no sign of life for a minute. Without this, every producer
    /// would notify the sleeper that such a worker was, for ever. What was sent for queues replaces what the worker
    /// told of them before.
    ///
    /// A row that was written before the database's clock was set back says that its worker lives until that time. It
    /// counts as written now: a worker that lives writes it again.
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
          delete from pushq.sleeper s
          where s.worker_id in (select id from gone)
            or (s.since < now() - interval '1 minute' or s.since > now() + interval '1 minute') and s.worker_id <> $id
              and not exists (select from pushq.worker w where w.id = s.worker_id)),
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
          on conflict (worker_id, queue_id) do update
            set shown_at = now(), seconds = excluded.seconds, sent = excluded.sent, in_flight = excluded.in_flight,
                accepted = excluded.accepted, unanswered = excluded.unanswered, refused = excluded.refused,
                latency = excluded.latency)
        insert into pushq.worker (id, name, version, draining, queues, in_flight, jobs, recipients, connections,
                                  streams, unreachable, in_outage, refusals, unusable, faults)
        values ($id, $name, $version, $draining, $queues, $in_flight, $jobs, $recipients, $connections, $streams,
                $unreachable, $in_outage, $refusals, $unusable, $faults)
        on conflict (id) do update
          set seen_at = now(), draining = excluded.draining, in_flight = excluded.in_flight, jobs = excluded.jobs,
              recipients = excluded.recipients, connections = excluded.connections, streams = excluded.streams,
              unreachable = excluded.unreachable, in_outage = excluded.in_outage, refusals = excluded.refusals,
              unusable = excluded.unusable, faults = excluded.faults
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
        with woken as (delete from pushq.sleeper where worker_id = $id),
        quiet as (delete from pushq.throughput where worker_id = $id)
        delete from pushq.worker where id = $id
        """#)
}

/// What a worker shows of itself.
package struct WorkerSign: Sendable {
    /// Host and process.
    package var name: String
    package var version = ""
    /// The pattern of the queues that it serves.
    package var queues = "*"
    package var isDraining = false
    /// Requests that wait for their answer.
    package var inFlight = 0
    /// Jobs that it holds, and their recipients.
    package var heldJobs = 0
    package var heldRecipients = 0
    /// Connections to APNs, and the requests that they take at once: those in flight, and as many more as there is room
    /// for.
    package var connections = 0
    package var streams = 0
    /// Queues for which it cannot reach APNs.
    package var unreachable: [Int32] = []
    /// Queues for which APNs refuses most pushes for transient reasons, with what it answers.
    package var inOutage: [Trouble] = []
    /// Queues whose credential it cannot use, with the reason.
    package var unusable: [Trouble] = []
    /// What it sent since it last showed itself, and how long that is ago. A queue that is not here was sent nothing.
    package var throughput: [Throughput] = []
    package var interval = Duration.seconds(5)

    package init(name: String) {
        self.name = name
    }

    /// A queue that nothing can be sent for, and why.
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
    /// Shows a worker to operators, and that it lives. Other workers decide nothing by it.
    /// - Returns: why this worker must not go on; nil if it may.
    @discardableResult
    package func showWorker(_ id: Int64, _ worker: WorkerSign) async throws(PostgresError) -> SchemaMismatch? {
        let parameters: Parameters = [
            "id": .int8(id), "name": .text(worker.name), "version": .text(worker.version),
            "draining": .bool(worker.isDraining), "queues": .text(worker.queues),
            "in_flight": .int4(Int32(clamping: worker.inFlight)), "jobs": .int4(Int32(clamping: worker.heldJobs)),
            "recipients": .int4(Int32(clamping: worker.heldRecipients)),
            "connections": .int4(Int32(clamping: worker.connections)),
            "streams": .int4(Int32(clamping: worker.streams)), "unreachable": .int4Array(worker.unreachable),
            "in_outage": .int4Array(worker.inOutage.map(\.queueID)),
            "refusals": .textArray(worker.inOutage.map(\.reason)),
            "unusable": .int4Array(worker.unusable.map(\.queueID)),
            "faults": .textArray(worker.unusable.map(\.reason)), "newest_known": .int4(SchemaMismatch.newestKnown),
            // What no time has passed for would be an endless rate.
            "seconds": .float8(max(0.001, worker.interval / .seconds(1))),
        ]
        let rows = try await execute(.showWorker, parameters + Throughput.parameters(of: worker.throughput))
        return try rows.one().optionalText("stopped_by").map { .olderWorker(stoppedBy: $0) }
    }

    /// Takes a worker off the list.
    package func removeWorker(_ id: Int64) async throws(PostgresError) {
        _ = try await execute(.removeWorker, ["id": .int8(id)])
    }
}
