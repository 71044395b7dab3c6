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
        insert into pushq.worker (incarnation, name, version, draining)
        values ($1, $2, $3, $4)
        on conflict (incarnation) do update set seen_at = now(), draining = excluded.draining
        """#)
    static let removeWorker = Statement(
        "remove_worker",
        #"""
        with woken as (delete from pushq.sleeper where incarnation = $1)
        delete from pushq.worker where incarnation = $1
        """#)
}

extension PostgresConnection {
    /// Shows a worker to operators, and that it lives. Nothing is decided by it.
    package func showWorker(
        _ incarnation: Int64, name: String, version: String, isDraining: Bool
    ) async throws(PostgresError) {
        _ = try await execute(.showWorker, [.int8(incarnation), .text(name), .text(version), .bool(isDraining)])
    }

    /// Takes a worker off the list.
    package func removeWorker(_ incarnation: Int64) async throws(PostgresError) {
        _ = try await execute(.removeWorker, [.int8(incarnation)])
    }
}
