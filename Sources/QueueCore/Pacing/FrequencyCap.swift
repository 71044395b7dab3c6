/// The maximum number of pushes that a device of a queue gets in a period.
package struct FrequencyCap: Equatable, Sendable {
    /// 1 to 100.
    package let pushes: Int
    /// A sliding period of a minute to 31 days; nil: a calendar day in the device's time zone.
    package let period: Duration?

    package static let pushesRange = 1...100
    package static let periodRange = Duration.seconds(60) ... .seconds(31 * 86_400)

    package init(pushes: Int, period: Duration?) {
        self.pushes = pushes
        self.period = period
    }
}

/// What a frequency cap counts and holds back: only alerts, because a person notices each of them. A background push is
/// not noticed, a call must get through, and a Live Activity shows what its user has asked to see.
package struct CapRule: Equatable, Sendable {
    /// Whether the cap applies to urgent alerts, too.
    package let includesUrgent: Bool
    /// When the cap was last changed, in microseconds since 1970 by the database's clock.
    package let setAt: Int64
    /// The age up to which a place certainly still counts; zero for calendar days, of which one may just have ended.
    package let window: Duration

    package init(includesUrgent: Bool, setAt: Int64, window: Duration) {
        self.includesUrgent = includesUrgent
        self.setAt = setAt
        self.window = window
    }

    /// The time in microseconds within which workers that can reach the database learn of a change.
    private static let learning: Int64 = 60_000_000

    /// Whether the cap applies to pushes of this type in this lane.
    package func includes(_ type: PushType, in lane: Lane) -> Bool {
        type.mayBeHeldBack(in: lane, evenUrgent: includesUrgent)
    }

    /// Whether every push of a message so far was counted and still counts. A recipient without a place has then got
    /// nothing.
    /// - Parameters:
    ///   - madeAt: when the message was created, in microseconds since 1970.
    ///   - age: how long ago that was.
    package func hasCounted(messageMadeAt madeAt: Int64, ago age: Duration) -> Bool {
        madeAt > setAt + Self.learning && age < window
    }
}
