/// What a file descriptor is watched for, or is ready for.
package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// There is something to read. As a result, it also means that the peer hung up or the socket failed; the next read
    /// reveals which.
    package static let readable = Interest(rawValue: 1 << 0)
    /// The kernel takes bytes again, or a connection attempt has ended.
    package static let writable = Interest(rawValue: 1 << 1)
}

/// Receives the readiness of a file descriptor. Called on the loop's thread, level-triggered: in every turn in which
/// the descriptor is ready for what it is watched for.
package protocol ReadinessHandler: AnyObject {
    func ready(_ readiness: Interest)
}
