import FoundationEssentials

extension Row {
    /// A `timestamptz` that is not null.
    func time(_ column: Int) -> Date { Date(timeIntervalSince1970: Double(timestamptz(column)) / 1_000_000) }

    /// A `timestamptz`, or nil for null.
    func optionalTime(_ column: Int) -> Date? { isNull(column) ? nil : time(column) }
}

extension Parameter {
    /// A `timestamptz`; nil is null.
    static func time(_ date: Date?) -> Parameter {
        .timestamptz(date.map { Int64(($0.timeIntervalSince1970 * 1_000_000).rounded()) })
    }
}
