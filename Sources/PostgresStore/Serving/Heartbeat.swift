extension Statement {
    /// Also deletes the rows of workers that have shown no sign of life for a minute. Without this, every producer
    /// would notify the sleeper that such a worker was, for ever.
    static let showWorker = Statement(
        "show_worker",
        #"""
        with gone as (
          delete from pushq.worker
          where seen_at < now() - interval '1 minute' and id <> $id
          returning id),
        woken as (
          delete from pushq.sleeper s
          where s.worker_id in (select id from gone)
            or s.since < now() - interval '1 minute' and s.worker_id <> $id
              and not exists (select from pushq.worker w where w.id = s.worker_id))
        insert into pushq.worker (id, name, version, draining, queues, in_flight, unreachable)
        values ($id, $name, $version, $draining, $queues, $in_flight, $unreachable)
        on conflict (id) do update
          set seen_at = now(), draining = excluded.draining, in_flight = excluded.in_flight,
              unreachable = excluded.unreachable
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
        with woken as (delete from pushq.sleeper where worker_id = $id)
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
    /// Queues for which it cannot reach APNs.
    package var unreachable: [Int32] = []

    package init(name: String) {
        self.name = name
    }
}

extension PostgresConnection {
    /// Shows a worker to operators, and that it lives. Other workers decide nothing by it.
    /// - Returns: why this worker must not go on; nil if it may.
    @discardableResult
    package func showWorker(_ id: Int64, _ worker: WorkerSign) async throws(PostgresError) -> SchemaMismatch? {
        let rows = try await execute(
            .showWorker,
            [
                "id": .int8(id), "name": .text(worker.name), "version": .text(worker.version),
                "draining": .bool(worker.isDraining), "queues": .text(worker.queues),
                "in_flight": .int4(Int32(clamping: worker.inFlight)), "unreachable": .int4Array(worker.unreachable),
                "newest_known": .int4(SchemaMismatch.newestKnown),
            ])
        return try rows.one().optionalText("stopped_by").map { .olderWorker(stoppedBy: $0) }
    }

    /// Takes a worker off the list.
    package func removeWorker(_ id: Int64) async throws(PostgresError) {
        _ = try await execute(.removeWorker, ["id": .int8(id)])
    }
}
