package import QueueCore

/// The result of cancelling many jobs, or the expected result.
package struct JobsCancellation: Sendable {
    package var jobs = 0
    /// Recipients of these jobs.
    package var recipients = 0
    /// Recipients that nothing more is sent to.
    package var stopped = 0
    /// Recipients in jobs that workers hold. Each is stopped within moments.
    package var held = 0

    /// No jobs yet.
    package init() {}
}

extension PostgresConnection {
    /// The number of jobs that one query lists.
    private static let page = 500

    /// Cancels all matching jobs of a queue, one after the other, in the order of their numbers. If this is
    /// interrupted, jobs that were cancelled stay cancelled.
    /// - Parameters:
    ///   - counts: only counts the jobs and recipients.
    ///   - progress: called after each job with the number of jobs so far.
    package func cancelJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool = false, progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> JobsCancellation {
        var sum = JobsCancellation()
        var last: Int64 = 0
        while true {
            let jobs = try await cancellableJobs(ofQueue: queue, filter, after: last, limit: Self.page)
            for job in jobs {
                sum.jobs += 1
                sum.recipients += job.recipientCount
                if !counts {
                    // A job that has ended meanwhile is not an unknown job: its result exists.
                    let cancelled = try await cancelJob(job.id, inQueue: queue)
                    sum.stopped += cancelled.stopped
                    sum.held += cancelled.held
                }
                progress(sum.jobs)
            }
            guard jobs.count == Self.page, let end = jobs.last else { return sum }
            last = end.id
        }
    }
}
