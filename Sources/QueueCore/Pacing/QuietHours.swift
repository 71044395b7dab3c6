/// The times of the day, by the clocks where a device is, at which it gets no alert.
package struct QuietHours: Equatable, Sendable {
    /// Minutes since midnight. The hours may cross it: then the end is less than the start.
    package let start: Int
    package let end: Int

    /// How long they may be, in minutes: four hours a day are left for what waits.
    package static let lengths = 1...1200
    /// Over which those who waited may be spread, from the end of their quiet hours on.
    package static let releases = Duration.zero ... .seconds(7200)

    /// Nil if they are too long, or no time at all.
    package init?(start: Int, end: Int) {
        guard Self.lengths.contains((end - start + 1440) % 1440) else { return nil }
        self.start = start
        self.end = end
    }

    /// As the database has them: `22:00-08:00`.
    package var text: String { "\(Self.clock(start))-\(Self.clock(end))" }

    private static func clock(_ minutes: Int) -> String {
        [minutes / 60, minutes % 60].map { ($0 < 10 ? "0" : "") + "\($0)" }.joined(separator: ":")
    }
}

/// What the quiet hours of a queue are for: alerts, as a ``CapRule`` is.
package struct QuietRule: Equatable, Sendable {
    /// Whether the queue has any.
    package let areSet: Bool
    /// Whether urgent alerts wait, too.
    package let includesUrgent: Bool

    /// No quiet hours, unless told otherwise.
    package init(areSet: Bool = false, includesUrgent: Bool = false) {
        self.areSet = areSet
        self.includesUrgent = includesUrgent
    }

    /// Whether there may be recipients of a push of this type in this lane who have quiet hours.
    /// - Parameter hasOwn: whether its campaign has quiet hours of its own, or explicitly none; nil: it says nothing.
    package func includes(_ type: PushType, in lane: Lane, hasOwn: Bool?) -> Bool {
        (hasOwn ?? areSet) && type.mayBeHeldBack(in: lane, evenUrgent: includesUrgent)
    }
}
