package import QueueCore

extension Statement {
    fileprivate static let cancelJobs = Statement(
        "cancel_jobs", "select stopped, held, locked from pushq.cancel_jobs($queue, $jobs)")
}

/// The result of cancelling many jobs, or the expected result.
package struct JobsCancellation: Sendable {
    /// Jobs that are cancelled, or would be.
    package var jobs = 0
    /// Recipients of these jobs.
    package var recipients = 0
    /// Recipients that nothing more is sent to.
    package var stopped = 0
    /// Recipients in jobs that workers hold. Each is stopped within moments.
    package var held = 0
    /// Jobs that are not cancelled and not counted above, because other transactions kept them locked.
    package var locked = 0

    /// No jobs yet.
    package init() {}

    fileprivate mutating func add(_ cancelled: Cancellation) {
        stopped += cancelled.stopped
        held += cancelled.held
    }
}

extension PostgresConnection {
    /// The number of jobs that one query lists and that one transaction cancels; `pushq.cancel_jobs` takes no more.
    private static let page = 500

    /// Cancels all matching jobs of a queue, in the order of their numbers, page by page; then those that others had
    /// locked, one by one. Those that stay locked are counted, and left. If this is interrupted, jobs of earlier pages
    /// stay cancelled.
    /// - Parameters:
    ///   - counts: only counts the jobs and recipients.
    ///   - progress: called after each page with the number of jobs so far.
    package func cancelJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool = false, progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> JobsCancellation {
        var sum = JobsCancellation()
        var locked: [CancellableJob] = []
        var last: Int64 = 0
        while true {
            let jobs = try await cancellableJobs(ofQueue: queue, filter, after: last, limit: Self.page)
            guard let end = jobs.last else { break }
            if !counts {
                let parameters: Parameters = ["queue": .queue(queue), "jobs": .int8Array(jobs.map(\.id))]
                let row = try await execute(.cancelJobs, parameters).one()
                sum.add(Cancellation(row))
                let left = Set(row.int8Array("locked"))
                locked += jobs.filter { left.contains($0.id) }
            }
            sum.jobs += jobs.count
            sum.recipients += jobs.reduce(0) { $0 + $1.recipientCount }
            progress(sum.jobs)
            guard jobs.count == Self.page else { break }
            last = end.id
        }
        try await cancelLocked(locked, ofQueue: queue, countingIn: &sum)
        return sum
    }

    /// Cancels jobs that others had locked, each in a transaction of its own: one that stays locked must not keep any
    /// other from being cancelled. A job that has ended meanwhile is not an unknown job: its result exists.
    /// - Parameter sum: has these jobs among those that are cancelled.
    private func cancelLocked(
        _ jobs: [CancellableJob], ofQueue queue: QueueName, countingIn sum: inout JobsCancellation
    ) async throws(PostgresError) {
        defer { terms?.lockLimit = nil }
        for job in jobs {
            // Whoever keeps one job locked may have locked many.
            terms?.lockLimit = sum.locked == 0 ? .seconds(1) : .milliseconds(100)
            do throws(PostgresError) {
                sum.add(try await cancelJob(job.id, inQueue: queue))
            } catch {
                guard error.isContended else { throw error }
                sum.locked += 1
                sum.jobs -= 1
                sum.recipients -= job.recipientCount
            }
        }
    }
}
