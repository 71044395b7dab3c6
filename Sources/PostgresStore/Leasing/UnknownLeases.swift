extension Statement {
    /// Finds leases held by a worker that does not know of them, because the answer to its claim was lost, or because
    /// the server does not know that the worker has ended their jobs: it has replaced the one where it did. `except`
    /// compares two sets by hashing or sorting, whatever their sizes. With `<> all`, PostgreSQL compared each lease
    /// with each: 1 s with 20,000 leases held.
    static let unknownLeases = Statement(
        "unknown_leases",
        #"""
        with unknown as materialized (
          select queue_id, job_id, epoch
          from pushq.lease
          where worker_id = $worker_id
          except
          select * from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[]))
        select l.queue_id, l.job_id, l.epoch, l.watermark, l.outcomes, l.losses
        from unknown u
        -- Lateral with a limit, so that each lease is found by its key, whatever the statistics say.
        cross join lateral (
          select *
          from pushq.lease l
          where l.queue_id = u.queue_id and l.job_id = u.job_id and l.epoch = u.epoch and l.worker_id = $worker_id
          limit 1) l
        """#)
}

/// A lease whose holder does not know of it.
package struct UnknownLease: Sendable {
    /// The stored progress. Its watermark is the one that the claim granted.
    package let progress: LeaseProgress
    /// How often a worker was lost while it held the job, or a send of it stayed without an answer.
    package let losses: Int

    /// The progress to give back if nothing was sent under this lease: with the watermark from before the claim. Only
    /// for a lease at the server where it was taken. One that has replaced it, without synchronous replication, may
    /// have leases that the worker served and ended.
    ///
    /// If nothing was lost with the job, that watermark is the first recipient without an outcome, because every
    /// yield writes it so. Otherwise it is not known, and the granted watermark stays.
    package var asItWas: LeaseProgress {
        guard losses == 0 else { return progress }
        let watermark = progress.outcomes.firstIndex(of: 0) ?? progress.outcomes.count
        return LeaseProgress(key: progress.key, watermark: watermark, outcomes: progress.outcomes)
    }
}

extension PostgresConnection {
    /// Returns the leases of `workerID` that are not in `known`.
    package func unknownLeases(workerID: Int64, known: [LeaseKey]) async throws(PostgresError) -> [UnknownLease] {
        try await execute(.unknownLeases, ["worker_id": .int8(workerID)] + known.parameters).map { row in
            UnknownLease(
                progress: LeaseProgress(
                    key: LeaseKey(row), watermark: Int(row.int2("watermark")), outcomes: row.bytes("outcomes")),
                losses: Int(row.int2("losses")))
        }
    }
}
