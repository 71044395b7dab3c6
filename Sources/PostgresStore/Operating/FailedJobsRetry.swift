package import QueueCore
import Transport

/// The result of retrying the failed recipients of many jobs, or the expected result.
package struct FailedJobsRetry: Sendable {
    package var jobs = 0
    /// Failed recipients of these jobs.
    package var recipients = 0
    package var sentAgain = 0
    /// The campaigns that are sent again to somebody.
    package var campaigns: Set<Int64> = []
    /// Jobs that could not be retried, such as jobs of a cancelled campaign, and the reason for the first of them.
    package var refused = 0
    package var refusal: String?
    /// Whether there are further jobs that were not reached.
    package var hasMore = false

    /// No jobs yet.
    package init() {}
}

extension PostgresConnection {
    /// The number of jobs that one query lists.
    private static let page = 500

    /// Retries the failed recipients of all matching jobs of a queue, each once: one job after the other, the latest
    /// first. If this is interrupted, finished jobs stay retried.
    /// - Parameters:
    ///   - counts: only counts the jobs and recipients.
    ///   - limit: the maximum number of jobs; nil: all.
    ///   - deadline: after that, no further job begins, and the result says that there are more. It also says so if
    ///     the tenant reaches its limit of calls after the first job. Nil: no deadline, and that limit is an error.
    ///   - progress: called after each job with the number of jobs so far.
    package func retryFailedJobs(
        ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool = false, atMost limit: Int? = nil,
        until deadline: ContinuousClock.Instant? = nil, progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> FailedJobsRetry {
        var sum = FailedJobsRetry()
        do throws(PostgresError) {
            try await retry(&sum, ofQueue: queue, filter, counts: counts, atMost: limit, until: deadline, progress)
        } catch {
            guard deadline != nil, sum.jobs > 0, error.isThrottled else { throw error }
            sum.hasMore = true
        }
        return sum
    }

    private func retry(
        _ sum: inout FailedJobsRetry, ofQueue queue: QueueName, _ filter: JobFilter, counts: Bool, atMost limit: Int?,
        until deadline: ContinuousClock.Instant?, _ progress: (Int) -> Void
    ) async throws(PostgresError) {
        var earlier: Int64?
        while true {
            let size = min(Self.page, (limit ?? .max) - sum.jobs)
            let jobs = try await failedJobs(ofQueue: queue, filter, earlier: earlier, limit: size)
            for job in jobs {
                if let deadline, sum.jobs > 0, loop.now >= deadline {
                    sum.hasMore = true
                    return
                }
                if !counts { try await retry(job, &sum) }
                sum.jobs += 1
                sum.recipients += job.failedCount
                progress(sum.jobs)
            }
            guard jobs.count == size else { return }
            earlier = jobs.last?.id
            if sum.jobs == limit {
                sum.hasMore = try await !failedJobs(ofQueue: queue, filter, earlier: earlier, limit: 1).isEmpty
                return
            }
        }
    }

    private func retry(_ job: FailedJob, _ sum: inout FailedJobsRetry) async throws(PostgresError) {
        do throws(PostgresError) {
            let again = try await retryFailed(ofJob: job.id, inQueue: job.queue)
            sum.sentAgain += again
            if again > 0, job.campaignKey != nil { sum.campaigns.insert(job.rootID) }
        } catch {
            guard case .raised(let message, _) = error else { throw error }
            sum.refused += 1
            sum.refusal = sum.refusal ?? message
        }
    }

    /// Returns why the pushes of these campaigns or sends wait, after they were sent again; nil if nothing is in their
    /// way.
    package func heldUp(
        _ roots: some Sequence<Int64>, inQueue queue: QueueName
    ) async throws(PostgresError) -> String? {
        var reasons: [String] = []
        for root in roots.sorted() {
            guard let reason = try await standstill(ofRoot: root, inQueue: queue).map({ "\($0)" }) else { continue }
            if !reasons.contains(reason) { reasons.append(reason) }
        }
        return reasons.isEmpty ? nil : reasons.joined(separator: "; ")
    }
}
