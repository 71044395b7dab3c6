package import QueueCore

/// What came of sending again to the failed recipients of many jobs, or would come of it.
package struct FailedJobsRetry: Sendable {
    package var jobs = 0
    /// Recipients of these jobs that had failed.
    package var recipients = 0
    package var sentAgain = 0
    /// Jobs that could not be sent again, such as those of a cancelled campaign, and why the first could not.
    package var refused = 0
    package var refusal: String?
    /// There are jobs that were not come to.
    package var hasMore = false

    /// None yet.
    package init() {}
}

extension PostgresConnection {
    /// Jobs that are listed at a time.
    private static let page = 500

    /// Goes through the jobs of a queue that fit, the latest first, and sends again to their failed recipients, each
    /// once: one job after the other. What was done stays done if it is interrupted.
    /// - Parameters:
    ///   - counts: only counts them.
    ///   - most: how many jobs it comes to; nil: all.
    ///   - progress: told after each job how many there were.
    package func retryFailedJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool = false, most: Int? = nil,
        progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> FailedJobsRetry {
        var sum = FailedJobsRetry()
        var earlier: Int64?
        while true {
            let size = min(Self.page, (most ?? .max) - sum.jobs)
            let jobs = try await failedJobs(ofQueue: queue, filter, earlier: earlier, limit: size)
            for job in jobs {
                sum.jobs += 1
                sum.recipients += job.failedCount
                if !counts { try await retry(job, &sum) }
                progress(sum.jobs)
            }
            guard jobs.count == size else { return sum }
            earlier = jobs.last?.id
            if sum.jobs == most {
                sum.hasMore = try await !failedJobs(ofQueue: queue, filter, earlier: earlier, limit: 1).isEmpty
                return sum
            }
        }
    }

    private func retry(_ job: FailedJob, _ sum: inout FailedJobsRetry) async throws(PostgresError) {
        do throws(PostgresError) {
            sum.sentAgain += try await retryFailed(ofJob: job.id, inQueue: job.queue)
        } catch {
            guard case .raised(let message, _) = error else { throw error }
            sum.refused += 1
            sum.refusal = sum.refusal ?? message
        }
    }
}
