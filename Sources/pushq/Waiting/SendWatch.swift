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

    /// Reports a send or broadcast that an earlier call with this key has made, and of which nothing is known any more.
    /// - Parameter send: what it is called, and its root.
    static func report(unkept send: (name: String, root: Int64), waits: Bool, on console: Console) throws {
        let words =
            "\(send.name) \(send.root) was made before under this key; its recipients and outcomes are no longer kept"
        console.show([(send.name, .text("\(send.root)"))])
        guard !waits else { throw Failure(words) }
        console.remark(words)
    }
}
