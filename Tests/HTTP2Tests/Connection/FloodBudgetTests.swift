import Testing

@testable import HTTP2

@Suite struct `A flood budget` {
    @Test func `lets a burst pass and then its rate`() {
        var budget = FloodBudget(.init(perSecond: 10, burst: 5))
        func passes(_ count: Int, at now: UInt64) -> Int {
            (0..<count).count { _ in budget.spend(now: now) }
        }
        #expect(passes(7, at: 1_000_000_000) == 5)
        // Refused events count, too: the two refused ones, and the two that have fallen due since.
        #expect(passes(3, at: 1_200_000_000) == 0)
        #expect(passes(7, at: 10_000_000_000) == 5)
    }
}
