import PostgresStore
import QueueCore
import Terminal

/// Waits for the end of a send or a broadcast.
struct SendWatch: Sendable {
    let root: Int64
    let queue: QueueName
    let console: Console
    var limit: Duration?

    /// Returns the progress when all recipients have an outcome, or the waiting was stopped.
    func untilFinished(in store: ReconnectingConnection) async throws -> (RootProgress?, Watch.End) {
        var watch = Watch(
            root: root, queue: queue, subject: "send \(root)",
            lookAgain: "pushq-admin send show \(queue) \(root)", console: console)
        watch.limit = limit
        return try await watch.untilFinished(in: store) { store in
            let progress = try await store.progress(ofRoot: root, inQueue: queue)
            return Watch.Progress(
                value: progress, ended: progress?.tally.ended ?? 0, total: progress?.total ?? 0,
                isFinished: progress?.isFinished ?? true)
        }
    }
}
