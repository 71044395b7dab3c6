/// A removal was committed, but not everything that the removed object held is deleted yet.
package struct UnfinishedRemoval: Error, CustomStringConvertible {
    /// The name of what was removed.
    let what: String
    let cause: PostgresError
    let advice: String

    package var description: String {
        "\(what) was removed, but what its queues held is not all deleted yet: \(advice) (\(cause))"
    }
}
