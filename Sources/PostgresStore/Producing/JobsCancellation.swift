package import QueueCore

extension Statement {
    fileprivate static let cancelJobs = Statement(
        "cancel_jobs", "select stopped, held, locked from pushq.cancel_jobs($queue, $jobs)")
}

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
    /// The number of jobs that one query lists and that one transaction cancels; `pushq.cancel_jobs` takes no more.
    private static let page = 500

    /// Cancels all matching jobs of a queue, in the order of their numbers, page by page. If this is interrupted, jobs
    /// of earlier pages stay cancelled.
    /// - Parameters:
    ///   - counts: only counts the jobs and recipients.
    ///   - progress: called after each page with the number of jobs so far.
    package func cancelJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool = false, progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> JobsCancellation {
        var sum = JobsCancellation()
        var last: Int64 = 0
        while true {
            let jobs = try await cancellableJobs(ofQueue: queue, filter, after: last, limit: Self.page)
            guard let end = jobs.last else { return sum }
            if !counts {
                for cancelled in try await cancelPage(jobs.map(\.id), ofQueue: queue) {
                    sum.stopped += cancelled.stopped
                    sum.held += cancelled.held
                }
            }
            sum.jobs += jobs.count
            sum.recipients += jobs.reduce(0) { $0 + $1.recipientCount }
            progress(sum.jobs)
            guard jobs.count == Self.page else { return sum }
            last = end.id
        }
    }

    /// Cancels these jobs in one transaction, and then those that others had locked, one by one. A job that has ended
    /// meanwhile is not an unknown job: its result exists.
    private func cancelPage(_ ids: [Int64], ofQueue queue: QueueName) async throws(PostgresError) -> [Cancellation] {
        let row = try await execute(.cancelJobs, ["queue": .queue(queue), "jobs": .int8Array(ids)]).one()
        var done = [Cancellation(row)]
        for id in row.int8Array("locked") {
            done.append(try await cancelJob(id, inQueue: queue))
        }
        return done
    }
}
