/// The counts of durations by upper bound. They are whole numbers, so that counting costs a few nanoseconds.
package struct Histogram: Sendable, Equatable {
    /// The upper bounds of the buckets in nanoseconds, ascending. One more bucket has no upper bound.
    package let bounds: [UInt64]
    /// The count of each bucket, not cumulative. The last one counts durations above all bounds.
    package private(set) var counts: [Int]
    /// The sum of all durations, in nanoseconds.
    package private(set) var sumNanoseconds: UInt64 = 0

    /// Bounds for a statement or an answer: 1 ms to 60 s.
    package static let waits: [UInt64] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000]
        .map { $0 * 1_000_000 }
    /// Bounds for the age of something that may wait long: 10 ms to a day.
    package static let ages: [UInt64] = [
        10, 50, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000,
    ].map { $0 * 1_000_000 }

    package init(_ bounds: [UInt64]) {
        self.bounds = bounds
        counts = [Int](repeating: 0, count: bounds.count + 1)
    }

    /// The number of durations.
    package var count: Int { counts.reduce(0, +) }

    /// Counts a duration, `count` times.
    package mutating func observe(nanoseconds: UInt64, count: Int = 1) {
        var index = 0
        while index < bounds.count, nanoseconds > bounds[index] { index += 1 }
        counts[index] += count
        sumNanoseconds &+= nanoseconds &* UInt64(count)
    }

    /// The same. A negative duration counts as zero.
    package mutating func observe(_ duration: Duration, count: Int = 1) {
        let (seconds, attoseconds) = duration.components
        guard seconds >= 0, attoseconds >= 0 else { return observe(nanoseconds: 0, count: count) }
        observe(
            nanoseconds: UInt64(min(seconds, 1_000_000_000)) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000),
            count: count)
    }

    /// Adds the counts of another histogram with the same bounds.
    package mutating func add(_ other: Histogram) {
        precondition(bounds == other.bounds, "histograms are added bucket by bucket")
        for index in counts.indices { counts[index] += other.counts[index] }
        sumNanoseconds &+= other.sumNanoseconds
    }
}
