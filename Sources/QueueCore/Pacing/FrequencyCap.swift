/// How many pushes a device of a queue gets at most in a period.
package struct FrequencyCap: Equatable, Sendable {
    /// 1 to 100.
    package let pushes: Int
    /// A minute to 31 days, over which it is counted at any time; nil: a calendar day in the device's time zone.
    package let period: Duration?

    package static let pushesRange = 1...100
    package static let periodRange = Duration.seconds(60) ... .seconds(31 * 86_400)

    package init(pushes: Int, period: Duration?) {
        self.pushes = pushes
        self.period = period
    }
}

/// What a frequency cap counts and holds back: alerts, of which a person notices each. A background push is not
/// noticed, a call has to get through, and a Live Activity shows what somebody has asked to see.
package struct CapRule: Equatable, Sendable {
    /// Whether it is for urgent alerts, too.
    package let includesUrgent: Bool
    /// When it was last changed, in microseconds since 1970 by the database's clock.
    package let setAt: Int64
    /// How old a place surely still counts: zero for calendar days, of which one may just have ended.
    package let window: Duration

    package init(includesUrgent: Bool, setAt: Int64, window: Duration) {
        self.includesUrgent = includesUrgent
        self.setAt = setAt
        self.window = window
    }

    /// Workers learn of a change within this time, if they can reach the database. In microseconds.
    private static let learning: Int64 = 60_000_000

    /// Whether it is for pushes of this type in this lane.
    package func includes(_ type: PushType, in lane: Lane) -> Bool {
        type.mayBeHeldBack(in: lane, evenUrgent: includesUrgent)
    }

    /// Whether all that was ever sent of a message was counted, and still is: then a recipient without a place has got
    /// nothing.
    /// - Parameters:
    ///   - madeAt: when the message was made, in microseconds since 1970.
    ///   - age: how long ago that was.
    package func hasCounted(messageMadeAt madeAt: Int64, ago age: Duration) -> Bool {
        madeAt > setAt + Self.learning && age < window
    }
}
