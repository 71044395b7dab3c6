import QueueCore
import Testing

@Suite struct `Backoff with full jitter` {
    let backoff = Backoff(base: .seconds(1), cap: .seconds(60))

    @Test(arguments: [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (1000, 60)])
    func `has a ceiling that doubles up to its cap`(attempt: Int, seconds: Int) {
        #expect(backoff.ceiling(afterAttempt: attempt) == .seconds(seconds))
    }

    @Test(arguments: [(1, 100), (2, 300), (3, 900), (4, 2700), (9, 656_100), (10, 900_000), (1000, 900_000)])
    func `begins soon where refusals are rare`(attempt: Int, milliseconds: Int) {
        #expect(Backoff.rareRefusal.ceiling(afterAttempt: attempt) == .milliseconds(milliseconds))
    }

    @Test func `lasts as long for ten attempts, however soon it begins`() {
        let ceilings = [Backoff.rareRefusal, .refusal].map { backoff in
            (1...9).reduce(Duration.zero) { $0 + backoff.ceiling(afterAttempt: $1) }
        }
        #expect(ceilings[0] >= ceilings[1])
    }

    @Test func `draws evenly between nothing and the ceiling`() {
        var generator = WeylGenerator()
        let delays = (0..<4000).map { _ in backoff.delay(afterAttempt: 4, using: &generator) / .seconds(8) }
        #expect(delays.allSatisfy { (0...1).contains($0) })
        let quarters = (0..<4).map { quarter in delays.count { Int(min($0, 0.999) * 4) == quarter } }
        // With a uniform distribution, a quarter contains 1000 ± 27. The bounds are ten standard deviations away.
        #expect(quarters.allSatisfy { (730...1270).contains($0) }, "\(quarters)")
    }
}

/// A generator that always returns the same, uniformly spread numbers: multiples of the golden ratio. The system's
/// generator is not used because it has no size: the thread sanitizer follows the address of an inout argument, and a
/// local variable without a size has none (Swift 6.3).
private struct WeylGenerator: RandomNumberGenerator {
    private var state: UInt64 = 0

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        return state
    }
}
