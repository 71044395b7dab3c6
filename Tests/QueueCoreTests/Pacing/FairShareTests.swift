import QueueCore
import Testing

@Suite struct `Taking turns` {
    /// Serves `rounds` units, always to the first turn in the order. Returns the number of units for each turn.
    private func serve(_ turns: inout [FairShare.Turn], rounds: Int, share: inout FairShare) -> [Int] {
        var served = turns.map { _ in 0 }
        for _ in 0..<rounds {
            var first = 0
            for index in turns.indices where turns[index].precedes(turns[first]) { first = index }
            share.serve(&turns[first], units: 16)
            served[first] += 1
        }
        return served
    }

    @Test func `is in proportion to the weights`() {
        var share = FairShare()
        var turns = [FairShare.Turn(weight: 3), FairShare.Turn(weight: 1)]
        let served = serve(&turns, rounds: 4000, share: &share)
        #expect((2998...3002).contains(served[0]))
    }

    @Test func `a contender that was away does not catch up`() {
        var share = FairShare()
        var turns = [FairShare.Turn(weight: 1)]
        _ = serve(&turns, rounds: 1000, share: &share)
        var late = FairShare.Turn(weight: 1)
        share.join(&late)
        turns.append(late)
        let served = serve(&turns, rounds: 100, share: &share)
        #expect((49...51).contains(served[1]))
    }

    @Test func `a contender that is served before its turn waits afterwards`() {
        var share = FairShare()
        var turns = [FairShare.Turn(weight: 1), FairShare.Turn(weight: 1)]
        _ = serve(&turns, rounds: 100, share: &share)
        share.serve(&turns[0], units: 256, isAhead: true)
        #expect(share.lead(of: turns[0]) >= 256)
        let served = serve(&turns, rounds: 16, share: &share)
        #expect(served == [0, 16], "what was ahead is made up for")
        #expect(share.lead(of: turns[0]) <= 16)
    }
}
