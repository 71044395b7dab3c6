/// What a file descriptor is watched for, and what it turned out to be ready for.
package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// There is something to read; as an answer also: the peer hung up or the socket failed, which the next read tells.
    package static let readable = Interest(rawValue: 1 << 0)
    /// The kernel takes bytes again, or a connection attempt has ended.
    package static let writable = Interest(rawValue: 1 << 1)
}

/// Whoever watches a file descriptor. Called on the loop's thread, level-triggered: as long as the descriptor is ready and
/// watched for it, every turn says so again.
package protocol ReadinessHandler: AnyObject {
    func ready(_ readiness: Interest)
}
