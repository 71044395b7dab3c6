import QueueCore

/// The queues whose IDs lie between two others.
package struct QueueRange: Sendable, Hashable {
    package let after: Int32
    package let before: Int32

    package init(after: Int32, before: Int32) {
        self.after = after
        self.before = before
    }

    /// The range of one queue.
    package init(_ queue: Int32) { self.init(after: queue - 1, before: queue + 1) }

    package func contains(_ queue: Int32) -> Bool { queue > after && queue < before }
}
