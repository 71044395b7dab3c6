import FoundationEssentials

extension Parameter {
    /// A `timestamptz`; nil is null.
    static func time(_ date: Date?) -> Parameter {
        .timestamptz(date.map { Int64(($0.timeIntervalSince1970 * 1_000_000).rounded()) })
    }
}
