import QueueCore
import Transport

/// Decides which queues have metrics of their own. The engines of a process share it, so that all of them count a queue
/// under the same labels.
///
/// The first queues up to the limit have their own metrics; all other queues are counted together. An admitted queue
/// stays admitted, so that no counter ever goes back.
package final class QueueAdmission: Sendable {
    private struct State {
        var admitted: Set<QueueName> = []
        var refused: Set<QueueName> = []
    }

    /// The maximum number of queues with metrics of their own. Each adds some fifty lines to every scrape.
    package static let usualLimit = 200
    /// The maximum number of refused queues that are remembered, to count them.
    private static let maximumRefused = 10_000

    package let limit: Int
    private let state = Locked(State())

    package init(limit: Int = usualLimit) {
        self.limit = limit
    }

    /// Whether a queue has metrics of its own.
    func admits(_ queue: QueueName) -> Bool {
        state.withLock { state in
            if state.admitted.contains(queue) { return true }
            if state.admitted.count < limit {
                state.admitted.insert(queue)
                return true
            }
            if state.refused.count < Self.maximumRefused { state.refused.insert(queue) }
            return false
        }
    }

    /// How many queues are counted together because the limit is reached; at most 10,000.
    var refusedCount: Int { state.withLock { $0.refused.count } }
}
