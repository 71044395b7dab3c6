/// The times of day, in a device's time zone, at which the device gets no alert.
package struct QuietHours: Equatable, Sendable {
    /// Minutes since midnight. Quiet hours may cross midnight: the end is then less than the start.
    package let start: Int
    package let end: Int

    /// The possible lengths in minutes. The maximum leaves four hours a day for waiting pushes.
    package static let lengths = 1...1200
    /// The possible periods after the end of quiet hours over which pushes to the waiting recipients are spread.
    package static let releases = Duration.zero ... .seconds(7200)

    /// Returns nil if the quiet hours are too long or empty.
    package init?(start: Int, end: Int) {
        guard Self.lengths.contains((end - start + 1440) % 1440) else { return nil }
        self.start = start
        self.end = end
    }

    /// The text as the database stores it: `22:00-08:00`.
    package var text: String { "\(Self.clock(start))-\(Self.clock(end))" }

    private static func clock(_ minutes: Int) -> String {
        [minutes / 60, minutes % 60].map { ($0 < 10 ? "0" : "") + "\($0)" }.joined(separator: ":")
    }
}

/// What the quiet hours of a queue hold back: only alerts, as with a ``CapRule``.
package struct QuietRule: Equatable, Sendable {
    /// Whether the queue has quiet hours.
    package let areSet: Bool
    /// Whether urgent alerts wait, too.
    package let includesUrgent: Bool

    /// Creates a rule, by default without quiet hours.
    package init(areSet: Bool = false, includesUrgent: Bool = false) {
        self.areSet = areSet
        self.includesUrgent = includesUrgent
    }

    /// Whether recipients of a push of this type in this lane may have quiet hours.
    /// - Parameter hasOwn: whether the campaign has quiet hours of its own (true) or explicitly none (false); nil: it
    ///   sets neither.
    package func includes(_ type: PushType, in lane: Lane, hasOwn: Bool?) -> Bool {
        (hasOwn ?? areSet) && type.mayBeHeldBack(in: lane, evenUrgent: includesUrgent)
    }
}
