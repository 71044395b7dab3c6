extension Statement {
    /// Takes places under frequency caps for recipients that are about to be sent to: see `pushq.hold_to_caps`.
    static let holdToCaps = Statement(
        "hold_to_caps",
        #"""
        select queue_id, job_id, device_id, wait
        from pushq.hold_to_caps(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $device_ids::bigint[], $patience::bigint * interval '1 microsecond')
        """#)
}

extension PostgresConnection {
    /// The time in which a worker usually waits for what producers keep.
    package static let rowPatience = Duration.milliseconds(15)

    /// Returns the jobs with the answers of their queues' frequency caps about the recipients that are still to be sent
    /// to.
    /// - Parameters:
    ///   - jobs: in their answers only ``CapAnswer/isWhole`` is set yet; jobs without an answer are not asked about.
    ///   - patience: how long to wait for rows that transactions of producers keep. After that, the statement takes up
    ///     to the same time again to find out which rows it cannot get.
    package func heldToCaps(
        _ jobs: [ClaimedJob], workerID: Int64, patience: Duration = rowPatience
    ) async throws(PostgresError) -> [ClaimedJob] {
        let held = try await recipientsHeldBack(
            by: .holdToCaps, of: jobs.filter { $0.capAnswer != nil }, workerID: workerID,
            // A recipient that lacks an attribute gets no push, and needs no place for it.
            where: { $0.canBeMade(for: $1) },
            { _ in ["patience": .int8(patience.wholeMicroseconds)] },
            hold: { row in row.optionalInt8("wait").map { CapHold.until(.microseconds($0)) } ?? .forGood })
        return jobs.map { job in
            var job = job
            if let devices = held[JobKey(job.key)] {
                job.capAnswer?.wasAsked = true
                job.capAnswer?.held = devices
            }
            return job
        }
    }
}
