extension Statement {
    /// Finds newer tokens of the same installation for recipients: see `pushq.successors`.
    static let successors = Statement(
        "successors",
        #"""
        select queue_id, job_id, device_id, successor
        from pushq.successors(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $device_ids::bigint[])
        """#)
}

extension PostgresConnection {
    /// Returns the jobs with the newer tokens of recipients whose own tokens may not be sent to any more. Does not
    /// query if there is no such recipient.
    package func withSuccessors(_ jobs: [ClaimedJob], workerID: Int64) async throws(PostgresError) -> [ClaimedJob] {
        let asked = AskedJobs(missingTokensOf: jobs)
        guard !asked.jobs.isEmpty else { return jobs }
        var found: [JobKey: [Int64: Int64]] = [:]
        for row in try await execute(.successors, asked.parameters(of: workerID)) {
            found[JobKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id")), default: [:]][
                row.int8("device_id")] = row.int8("successor")
        }
        return jobs.map { job in
            var job = job
            job.successors = found[JobKey(job.key)] ?? [:]
            return job
        }
    }
}
