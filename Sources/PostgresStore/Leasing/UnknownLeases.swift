extension Statement {
    /// Leases in a worker's name that it does not know of: the answer to their claim was lost. `except` compares two
    /// sets by hashing or sorting, whatever their sizes: with `<> all` each lease was compared with each, for 1 s where
    /// 20,000 were held.
    static let unknownLeases = Statement(
        "unknown_leases",
        #"""
        with unknown as materialized (
          select queue_id, job_id, epoch
          from pushq.lease
          where worker_id = $worker_id
          except
          select * from unnest($queue_ids::int[], $job_ids::bigint[], $epochs::int[]))
        select l.queue_id, l.job_id, l.epoch, l.watermark, l.outcomes, l.rescues
        from unknown u
        join pushq.lease l on l.queue_id = u.queue_id and l.job_id = u.job_id and l.epoch = u.epoch
          and l.worker_id = $worker_id
        """#)
}

/// A lease whose holder does not know of it.
package struct UnknownLease: Sendable {
    /// As it is stored: its watermark is what the claim granted.
    package let progress: LeaseProgress
    /// Times that a worker was lost with it.
    package let rescues: Int

    /// As it goes back if nothing was sent for it: with the watermark that it had before the claim.
    ///
    /// Of a job that no worker was lost with, that is its first recipient without an outcome, since all that was given
    /// back was given back so. Of others nobody knows, and the watermark stays.
    package var asItWas: LeaseProgress {
        guard rescues == 0 else { return progress }
        let watermark = progress.outcomes.firstIndex(of: 0) ?? progress.outcomes.count
        return LeaseProgress(key: progress.key, watermark: watermark, outcomes: progress.outcomes)
    }
}

extension PostgresConnection {
    /// Leases of `workerID` other than `known`.
    package func unknownLeases(workerID: Int64, known: [LeaseKey]) async throws(PostgresError) -> [UnknownLease] {
        try await execute(.unknownLeases, ["worker_id": .int8(workerID)] + known.parameters).map { row in
            UnknownLease(
                progress: LeaseProgress(
                    key: LeaseKey(row), watermark: Int(row.int2("watermark")), outcomes: row.bytes("outcomes")),
                rescues: Int(row.int2("rescues")))
        }
    }
}
