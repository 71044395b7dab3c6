import FoundationEssentials

/// The clocks of a simulator. They are read once for each burst of requests, not for each request.
final class SimulationClock {
    private let start = ContinuousClock.now

    /// Microseconds since 1970, for records and tokens.
    private(set) var now = 0
    /// Nanoseconds since the simulator started.
    private(set) var monotonicNow: UInt64 = 0

    /// Reads the clocks.
    func refresh() {
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        monotonicNow = UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
        now = Int(Date().timeIntervalSince1970 * 1_000_000)
    }
}
