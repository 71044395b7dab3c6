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

/// Is told when a file descriptor is ready. Called on the loop's thread, level-triggered: in every turn in which the
/// descriptor is ready for what it is watched for.
package protocol ReadinessHandler: AnyObject {
    func ready(_ readiness: Interest)
}
