/// A queue without a credential, from which nothing is sent.
package struct MissingCredential: CustomStringConvertible {
    /// The queue's name.
    package let queue: String

    package init(queue: String) { self.queue = queue }

    /// The queue with what to do. A queue created while its tenant has several credentials gets none of them.
    package var description: String {
        "\(queue) has no credential; add one with: pushq-admin credential add, or choose one that the tenant has with: "
            + "pushq-admin queue set \(queue) --credential NAME"
    }
}
