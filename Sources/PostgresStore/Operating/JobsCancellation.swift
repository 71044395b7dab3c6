package import QueueCore

/// What came of cancelling many jobs, or would come of it.
package struct JobsCancellation: Sendable {
    package var jobs = 0
    /// Recipients of these jobs.
    package var recipients = 0
    /// Recipients that are not sent to any more.
    package var stopped = 0
    /// Recipients in the hands of workers, each of which is stopped within moments.
    package var held = 0

    /// None yet.
    package init() {}
}

extension PostgresConnection {
    /// Jobs that are listed at a time.
    private static let page = 500

    /// Goes through the jobs of a queue that fit, in the order of their numbers, and cancels them one after the other.
    /// What was done stays done if it is interrupted.
    /// - Parameters:
    ///   - counts: only counts them.
    ///   - progress: told after each job how many there were.
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
                    // One that has ended meanwhile is still known: its result is.
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
