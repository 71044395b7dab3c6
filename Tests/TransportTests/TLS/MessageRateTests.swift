import Testing

@testable import Transport

@Suite struct `The rate of a peer's TLS messages` {
    private static let second: UInt64 = 1_000_000_000

    /// Whether the rate is exceeded at each of these times, with so many messages in all.
    private func isExceeded(_ counts: [(time: UInt64, count: Int)]) -> [Bool] {
        var rate = MessageRate()
        return counts.map { rate.isExceeded(by: $0.count, now: $0.time) }
    }

    @Test func `may be a thousand in each second`() {
        let seconds = (1...10).map { (time: UInt64($0) * Self.second, count: $0 * MessageRate.limit) }
        #expect(!isExceeded(seconds).contains(true))
    }

    @Test func `is exceeded by one more within a second, also after a quiet time`() {
        let start = 100 * Self.second
        let counts = [
            (start, 10), (start + 1, MessageRate.limit), (start + Self.second - 1, MessageRate.limit + 1),
        ]
        #expect(isExceeded(counts.map { (time: $0.0, count: $0.1) }) == [false, false, true])
    }

    @Test func `counts from the last messages, however long data alone came`() {
        let counts = [(Self.second, 10), (Self.second + 1, 10), (3 * Self.second, 10 + MessageRate.limit)]
        #expect(isExceeded(counts.map { (time: $0.0, count: $0.1) }) == [false, false, false])
    }
}
