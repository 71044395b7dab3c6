import FoundationEssentials

/// The clocks of a simulator, read once for each burst of requests: a request costs no look at them.
final class SimulationClock {
    private let start = ContinuousClock.now

    /// Microseconds since 1970, as records and tokens tell the time.
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
