/// The result of a cancellation.
package struct Cancellation: Equatable, Sendable {
    /// Recipients that nothing more is sent to.
    package let stopped: Int
    /// Recipients without an outcome in jobs that workers hold. Each is stopped within moments, unless its push was
    /// sent.
    package let held: Int

    init(_ row: Row) {
        stopped = row.count("stopped")
        held = row.count("held")
    }
}
