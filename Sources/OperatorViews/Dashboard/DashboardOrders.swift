import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// The changes that the page can make. Each does what a command does.
enum DashboardOrders {
    /// Carries out an order. Returns one sentence about what was done.
    static func carryOut(_ request: DashboardRequest, _ store: PostgresConnection) async throws -> String {
        switch request.action {
        case "queue-pause":
            let queue = try request.theQueue()
            try await store.pauseQueue(queue, reason: "by hand")
            return "paused \(queue)"
        case "queue-resume":
            let queue = try request.theQueue()
            try await store.resumeQueue(queue)
            return "resumed \(queue)"
        case "campaign-pause": return try await order(.pause, "paused", request, store)
        case "campaign-resume": return try await order(.resume(sendBy: nil), "resumed", request, store)
        case "campaign-cancel": return try await order(.cancel, "cancelled", request, store)
        case "schedule-pause", "schedule-resume": return try await orderSchedule(request, store)
        case "schedule-run":
            let (queue, name) = (try request.theQueue(), try request.theKey())
            return "started campaign \(try await store.runSchedule(name, ofQueue: queue))"
        case "campaign-retry-failed":
            return try await retryCampaign(try request.theKey(), of: try request.theQueue(), store)
        case "job-retry":
            let (queue, job) = (try request.theQueue(), try request.theJob())
            let root = try await store.root(ofFailedJob: job, inQueue: queue)
            let count = try await store.retryFailed(ofJob: job, inQueue: queue)
            return "\(NumberText.counted(count, "failed recipient")) of job \(job) will be sent to again"
                + (try await heldUp(count > 0 ? [root] : [], queue, store))
        case "jobs-retry": return try await retryJobs(request, store)
        default: throw DashboardRequest.bad("there is no such action")
        }
    }

    /// What to add about that which was sent again: why it waits. It is left out if the tenant has reached its limit of
    /// calls: what was done must be said in any case.
    private static func heldUp(
        _ roots: [Int64?], _ queue: QueueName, _ store: PostgresConnection
    ) async throws -> String {
        let reason: String?
        do throws(PostgresError) {
            reason = try await store.heldUp(roots.compactMap(\.self), inQueue: queue)
        } catch {
            guard error.isThrottled else { throw error }
            reason = nil
        }
        return reason.map { ", but it waits: \($0)" } ?? ""
    }

    /// The maximum number of jobs of one order, and how long it may go on to further ones. Other orders wait for it,
    /// and the browser of its operator waits 30 seconds (`ServerLimits.answerTime`), also for what is asked after it.
    private static let maximumJobs = 1000
    private static let patience = Duration.seconds(5)
    /// The maximum number of campaigns that are asked why they wait.
    private static let maximumCampaigns = 10

    private static func retryJobs(_ request: DashboardRequest, _ store: PostgresConnection) async throws -> String {
        let filter = try request.theFilter()
        guard filter.campaign != nil || filter.reason != nil || filter.since != nil || filter.until != nil else {
            throw DashboardRequest.bad("select jobs by campaign, reason or time")
        }
        return try await retryJobs(of: try request.theQueue(), filter, store)
    }

    private static func retryCampaign(
        _ key: String, of queue: QueueName, _ store: PostgresConnection
    ) async throws -> String {
        var filter = JobFilter()
        filter.campaign = key
        guard try await store.failedJobs(ofQueue: queue, filter, limit: 1).isEmpty else {
            return try await retryJobs(of: queue, filter, store)
        }
        // Says why there is nothing to send again, unless a job has failed meanwhile.
        let count = try await store.retryFailed(ofCampaign: key, inQueue: queue)
        return count == 0
            ? "campaign \(key) has no failed recipients"
            : "\(NumberText.counted(count, "failed recipient")) of campaign \(key) will be sent to again"
    }

    private static func retryJobs(
        of queue: QueueName, _ filter: JobFilter, _ store: PostgresConnection
    ) async throws -> String {
        let sum = try await store.retryFailedJobs(
            ofQueue: queue, filter, atMost: maximumJobs, until: ContinuousClock.now + patience)
        var said = [
            "\(NumberText.counted(sum.sentAgain, "failed recipient")) of "
                + "\(NumberText.counted(sum.jobs - sum.refused, "job")) will be sent to again"
                + (try await heldUp(Array(sum.campaigns.sorted().suffix(maximumCampaigns)), queue, store))
        ]
        if let refusal = sum.refusal {
            said.append("\(NumberText.counted(sum.refused, "job")) cannot be sent again, such as: \(refusal)")
        }
        if sum.hasMore { said.append("more jobs match: send again to them, too") }
        return said.joined(separator: "; ")
    }

    private static func order(
        _ order: CampaignOrder, _ done: String, _ request: DashboardRequest, _ store: PostgresConnection
    ) async throws -> String {
        let (queue, key) = (try request.theQueue(), try request.theKey())
        guard try await store.order(order, campaign: key, ofQueue: queue) else {
            let hasEnded = try await store.campaign(key, ofQueue: queue)?.isFinished == true
            throw DashboardError(
                status: 409, text: "campaign \(key) \(hasEnded ? "has ended" : "is not in a state that allows this")")
        }
        return "\(done) campaign \(key)"
    }

    private static func orderSchedule(_ request: DashboardRequest, _ store: PostgresConnection) async throws -> String {
        let (queue, name) = (try request.theQueue(), try request.theKey())
        let isPause = request.action == "schedule-pause"
        guard try await store.order(isPause ? .pause : .resume, schedule: name, ofQueue: queue) else {
            throw DashboardError(
                status: 409, text: "schedule \(name) is \(isPause ? "already paused" : "not paused")")
        }
        return "\(isPause ? "paused" : "resumed") schedule \(name)"
    }
}
