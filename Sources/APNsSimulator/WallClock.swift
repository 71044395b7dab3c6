import FoundationEssentials

/// The time of day, as records and tokens tell it.
enum WallClock {
    /// Microseconds since 1970.
    static func microseconds() -> Int {
        Int(Date().timeIntervalSince1970 * 1_000_000)
    }
}
