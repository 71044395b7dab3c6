package import Testing

/// The pushes that one rate limit has let through, and the permits that it has granted for them.
///
/// The simulator notes an arrival when it reads it, and on a busy machine it reads late. So arrivals alone tell neither
/// that a second had too many, nor that a permit was used too early. The database's own record tells what was granted,
/// at any load: a push without a permit, or a permit that is used twice, makes more pushes than permits.
package struct PacedArrivals {
    package let rate: Double
    package let burst: Double
    /// The times from which the limit's permits could be used, ascending, in microseconds since 1970.
    package let permits: [Int]
    /// The times of the pushes, ascending, in microseconds since 1970.
    package let arrivals: [Int]
    /// ``SimulatorRecord/longestDelay(beyond:)`` of their simulator, in microseconds.
    package let delay: Int

    package init(rate: Double, burst: Double, permits: [Int], arrivals: [Int], delay: Int) {
        self.rate = rate
        self.burst = burst
        self.permits = permits
        self.arrivals = arrivals
        self.delay = delay
    }

    /// Expects that the limit has granted no more than it may, that each push had a permit of its own, and that no
    /// second had more pushes than rate and burst allow.
    package func expectWithinRate(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(!arrivals.isEmpty, "nothing arrived", sourceLocation: sourceLocation)
        // The time by which a permit may be used late is subtracted from the burst, which is at least as long.
        let allowed = rate + max(burst, rate / 10 + 1)
        let granted = SimulatorRecord.maximumCount(of: permits[...], within: 1_000_000)
        #expect(Double(granted) <= allowed, "permits of one second", sourceLocation: sourceLocation)
        #expect(arrivals.count <= permits.count, "pushes without a permit", sourceLocation: sourceLocation)
        // While it reads, the simulator may note a time before that at which it began.
        let early = zip(permits, arrivals).count { permit, arrival in arrival + delay + 5000 < permit }
        #expect(early == 0, "pushes before the time of their permit", sourceLocation: sourceLocation)
        // A worker that gets no processor at the wrong moment has a tenth of a second's permits in hand. What arrives
        // while the simulator stands still is noted together, in the next turn of its loop or the one after.
        let late = rate * (0.1 + 2 * Double(delay) / 1e6) + 1
        let second = SimulatorRecord.maximumCount(of: arrivals[...], within: 1_000_000)
        #expect(
            Double(second) <= allowed + late, "a second went over rate and burst, with a delay of \(delay) µs",
            sourceLocation: sourceLocation)
    }

    /// The part of the rate that the best three seconds have reached, one push more or less. The pushes of the burst do
    /// not count.
    ///
    /// A worker that is delayed by a busy machine lets permits lapse. So a test looks for the best seconds, and sends
    /// for as long as it takes to see them.
    package static func reached(_ rate: Double, by arrivals: [Int]) -> Double {
        let best = SimulatorRecord.maximumCount(of: arrivals.dropFirst(Int(rate / 2)), within: 3_000_000)
        return Double(best + 1) / (3 * rate)
    }
}
