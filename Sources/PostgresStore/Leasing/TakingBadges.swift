extension Statement {
    /// Takes badge numbers for recipients that are about to be sent to: see `pushq.take_badges`.
    static let takeBadges = Statement(
        "take_badges",
        #"""
        select queue_id, job_id, device_id, figure
        from pushq.take_badges(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $increments::int[], $firsts::int[],
          $lasts::int[], $device_ids::bigint[], $patience::bigint * interval '1 microsecond')
        """#)
}

extension PostgresConnection {
    /// Returns the jobs with badge numbers for their recipients, where ``ClaimedJob/badgeIncrement`` is set. Does not
    /// query if there is no such job.
    ///
    /// Leaves out a job without an answer: this worker has lost it, so nothing of it may be sent. Recipients whose
    /// badge another transaction has locked are in ``ClaimedJob/lockedBadges``.
    /// - Parameter patience: see ``heldToCaps(_:workerID:patience:)``.
    package func takingBadges(
        _ jobs: [ClaimedJob], workerID: Int64, patience: Duration = rowPatience
    ) async throws(PostgresError) -> [ClaimedJob] {
        let asked = AskedJobs(jobs.filter { $0.badgeIncrement != nil }) { job, ordinal in
            // A recipient that is held back, or lacks an attribute, gets no push now.
            job.capAnswer?.held[job.deviceIDs[ordinal]] == nil && job.canBeMade(for: ordinal)
        }
        guard !asked.jobs.isEmpty else { return jobs }
        let more: Parameters = [
            "increments": .int4Array(asked.jobs.map { Int32($0.badgeIncrement ?? 0) }),
            "patience": .int8(patience.wholeMicroseconds),
        ]
        var figures: [JobKey: [Int64: Int32?]] = [:]
        for row in try await execute(.takeBadges, asked.parameters(of: workerID) + more) {
            let job = JobKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id"))
            figures[job, default: [:]].updateValue(row.optionalInt4("figure"), forKey: row.int8("device_id"))
        }
        let devices = Dictionary(uniqueKeysWithValues: zip(asked.jobs.map { JobKey($0.key) }, asked.devices))
        return jobs.compactMap { job in
            guard let devices = devices[JobKey(job.key)] else { return job }
            guard let taken = figures[JobKey(job.key)], taken.count == devices.count else { return nil }
            var job = job
            job.personal?.take(figures: job.deviceIDs.map { (taken[$0] ?? nil) ?? 0 })
            job.lockedBadges = Set(taken.filter { $0.value == nil }.keys)
            return job
        }
    }
}
