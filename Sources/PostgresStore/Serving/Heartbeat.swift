extension Statement {
    /// Also clears away what dead workers left: after a minute without a sign of life nobody believes in them. A sleeper who is no worker
    /// would have every producer notify for ever.
    static let showWorker = Statement(
        "show_worker",
        #"""
        with gone as (
          delete from pushq.worker where seen_at < now() - interval '1 minute' and incarnation <> $1 returning incarnation),
        woken as (
          delete from pushq.sleeper s
          where s.incarnation in (select incarnation from gone)
            or s.since < now() - interval '1 minute' and s.incarnation <> $1
              and not exists (select from pushq.worker w where w.incarnation = s.incarnation))
        insert into pushq.worker (incarnation, name, version, draining, queues, in_flight, unreachable)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (incarnation) do update
          set seen_at = now(), draining = excluded.draining, in_flight = excluded.in_flight, unreachable = excluded.unreachable
        returning (
          select m.name
          from pushq.migration m
          where m.version > $8 and m.stops_older_workers
          order by m.version
          limit 1) as stopped_by
        """#)
    static let removeWorker = Statement(
        "remove_worker",
        #"""
        with woken as (delete from pushq.sleeper where incarnation = $1)
        delete from pushq.worker where incarnation = $1
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
    package func showWorker(_ incarnation: Int64, _ worker: WorkerSign) async throws(PostgresError) -> SchemaMismatch? {
        let rows = try await execute(
            .showWorker,
            [
                .int8(incarnation), .text(worker.name), .text(worker.version), .bool(worker.isDraining),
                .text(worker.queues), .int4(Int32(clamping: worker.inFlight)), .int4Array(worker.unreachable),
                .int4(SchemaMismatch.newestKnown),
            ])
        return rows.first?.optionalText(0).map { .olderWorker(stoppedBy: $0) }
    }

    /// Takes a worker off the list.
    package func removeWorker(_ incarnation: Int64) async throws(PostgresError) {
        _ = try await execute(.removeWorker, [.int8(incarnation)])
    }
}
