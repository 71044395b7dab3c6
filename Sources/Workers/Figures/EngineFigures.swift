import Metrics
import QueueCore

/// The statements of a worker that are timed.
enum TimedStatement: Int, CaseIterable, Sendable {
    case poll, claim, flush, handover, renew, end, yield
}

/// What an engine has counted since it started, except its counts for each queue.
struct EngineCounts: Sendable {
    /// The time from sending a statement to its answer.
    var statements = [Histogram](repeating: Histogram(Histogram.waits), count: TimedStatement.allCases.count)
    var jobsClaimed = 0
    var jobsEnded = 0
    var jobsGivenBack = 0
    var jobsRescued = 0
    var jobsQuarantined = 0
    var jobsSetAside = 0
    var leasesLost = 0
    var leasesFound = 0
    /// Flushes and renewals that failed and are repeated by the next round, and ends that were tried again.
    var flushRetries = 0
    var endRetries = 0
    /// How often PostgreSQL went out of reach.
    var storeLosses = 0
    /// How often a server was refused because another server has replaced it.
    var oldPrimaries = 0
    /// How often APNs began to answer with transient refusals only.
    var outages = 0
    /// How late the loop's timers fire: how long one turn keeps the others waiting.
    var loopLag = Histogram(Histogram.waits)

    mutating func note(_ statement: TimedStatement, took duration: Duration) {
        statements[statement.rawValue].observe(duration)
    }

    mutating func add(_ other: EngineCounts) {
        for index in statements.indices { statements[index].add(other.statements[index]) }
        jobsClaimed += other.jobsClaimed
        jobsEnded += other.jobsEnded
        jobsGivenBack += other.jobsGivenBack
        jobsRescued += other.jobsRescued
        jobsQuarantined += other.jobsQuarantined
        jobsSetAside += other.jobsSetAside
        leasesLost += other.leasesLost
        leasesFound += other.leasesFound
        flushRetries += other.flushRetries
        endRetries += other.endRetries
        storeLosses += other.storeLosses
        oldPrimaries += other.oldPrimaries
        outages += other.outages
        loopLag.add(other.loopLag)
    }
}

/// What an engine counts for itself and for each queue.
///
/// Belongs to the engine's event loop.
final class EngineFigures {
    var counts = EngineCounts()
    private let admission: QueueAdmission
    private var queues: [QueueName: QueueFigures] = [:]
    private let others = QueueFigures()

    init(_ admission: QueueAdmission) {
        self.admission = admission
    }

    /// The counts of a queue: its own, or those that all queues beyond the limit share. They last as long as the
    /// engine, even while the queue is forgotten.
    func figures(of queue: QueueName) -> QueueFigures {
        if let known = queues[queue] { return known }
        guard admission.admits(queue) else { return others }
        let new = QueueFigures()
        queues[queue] = new
        return new
    }

    /// The counts of all queues. The key nil has those of all queues beyond the limit.
    var countsOfQueues: [QueueName?: QueueCounts] {
        var counts: [QueueName?: QueueCounts] = [:]
        for (name, figures) in queues { counts[name] = figures.counts }
        let nobody: QueueName? = nil
        if admission.refusedCount > 0 { counts[nobody] = others.counts }
        return counts
    }
}
