package import FoundationEssentials
package import PostgresStore
import QueueCore

/// The figures on the screen: the last answer of the database.
package struct TopFigures: Sendable {
    /// When the database was queried.
    package var takenAt: Date
    package var loads: QueueLoads
    /// All workers; nil for a login that may not see them.
    package var workers: [WorkerSummary]?

    package init(takenAt: Date, loads: QueueLoads, workers: [WorkerSummary]?) {
        self.takenAt = takenAt
        self.loads = loads
        self.workers = workers
    }
}

extension PostgresConnection {
    /// Returns the figures of the queues of one tenant, or of all queues that the login may see, and of workers if it
    /// may see them.
    package func topFigures(
        of tenant: String?, matching: String?, withWorkers: Bool
    ) async throws(PostgresError) -> TopFigures {
        let loads = try await queueLoads(of: tenant, matching: matching)
        return TopFigures(takenAt: .now, loads: loads, workers: withWorkers ? try await workers() : nil)
    }
}

/// How often APNs gave a reason, over all queues that are shown.
package struct ReasonRate: Sendable, Equatable {
    package let reason: String
    package let perSecond: Double
    /// Its share of all answers.
    package let share: Double
    /// The number of queues for which APNs gave it.
    package let queues: Int
}

extension QueueLoads {
    /// The sum of a figure over all queues that are shown.
    package func sum(_ figure: (QueueLoad) -> Int) -> Int { queues.reduce(0) { $0 + figure($1) } }

    /// Requests per second over all queues that are shown.
    package var sentPerSecond: Double { queues.reduce(0) { $0 + $1.sentPerSecond } }

    /// How long the oldest waiting job has been due.
    package var oldest: Duration? { queues.compactMap(\.oldest).max() }

    /// Whether more is waiting than was counted.
    package var isPartial: Bool { hasMore || queues.contains(where: \.isPartial) }

    /// The latency of the answers over all queues that are shown.
    package var answerTimes: AnswerTimes {
        queues.reduce(into: AnswerTimes()) { $0.add($1.answerTimes) }
    }

    /// The answers of the last seconds by reason: refusals first, the most frequent at the top; then accepted pushes
    /// and requests without an answer.
    package var reasons: [ReasonRate] {
        var counts: [String: (perSecond: Double, count: Int, queues: Int)] = [:]
        func add(_ name: String, _ count: Int, of queue: QueueLoad) {
            guard count > 0 else { return }
            let old = counts[name] ?? (0, 0, 0)
            counts[name] = (
                old.perSecond + Double(count) / max(queue.seconds, 1), old.count + count, old.queues + 1
            )
        }
        for queue in queues {
            add(ReasonRate.accepted, queue.accepted, of: queue)
            add(ReasonRate.unanswered, queue.unanswered, of: queue)
            for refusal in queue.refused { add(refusal.reason.text, refusal.count, of: queue) }
        }
        let all = counts.values.reduce(0) { $0 + $1.count }
        let last = [ReasonRate.accepted, ReasonRate.unanswered]
        let place = { (name: String) in last.firstIndex(of: name) ?? -1 }
        return counts.map { name, count in
            ReasonRate(
                reason: name, perSecond: count.perSecond, share: Double(count.count) / Double(all), queues: count.queues
            )
        }
        .sorted {
            (place($0.reason), -$0.perSecond, $0.reason) < (place($1.reason), -$1.perSecond, $1.reason)
        }
    }
}

extension ReasonRate {
    package static let accepted = "accepted"
    package static let unanswered = "unanswered"
}
