import QueueCore

extension PostgresConnection {
    /// Asks a statement which recipients of jobs that are about to be sent are held back. Does not query if there is no
    /// recipient to ask about.
    /// - Parameters:
    ///   - statement: takes the keys of the jobs, and the part of `$device_ids` that belongs to each job: from
    ///     `$firsts` to `$lasts`, counted from 1. It returns a row for each recipient that is held back.
    ///   - isAskedAbout: whether to ask about an ordinal of a job.
    ///   - more: further parameters of the statement, about the same jobs.
    ///   - hold: reads from such a row how long the recipient is held back.
    /// - Returns: the recipients held back of each job that was asked about, by device.
    func recipientsHeldBack<Hold>(
        by statement: Statement, of jobs: [ClaimedJob], workerID: Int64,
        where isAskedAbout: (ClaimedJob, Int) -> Bool = { _, _ in true },
        _ more: ([ClaimedJob]) -> Parameters, hold: (Row) -> Hold
    ) async throws(PostgresError) -> [JobKey: [Int64: Hold]] {
        let asked = AskedJobs(jobs, where: isAskedAbout)
        guard !asked.jobs.isEmpty else { return [:] }
        var held = Dictionary(uniqueKeysWithValues: asked.jobs.map { (JobKey($0.key), [Int64: Hold]()) })
        for row in try await execute(statement, asked.parameters(of: workerID) + more(asked.jobs)) {
            held[JobKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id"))]?[row.int8("device_id")] = hold(row)
        }
        return held
    }
}
