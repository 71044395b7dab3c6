import QueueCore
import Testing

@Suite struct `Sharing a room` {
    /// Lets contenders, one for each of `weights`, take what they may, again and again. In between, each gives back a
    /// tenth of what it has.
    private func fill(_ room: Int, weights: [Double]) -> [Int] {
        var taken = weights.map { _ in 0 }
        for _ in 0..<200 {
            for index in weights.indices {
                taken[index] -= (taken[index] + 9) / 10
                let free = room - taken.reduce(0, +)
                taken[index] += SharedRoom.more(
                    having: taken[index], free: free, weight: weights[index], heaviest: weights.max()!)
            }
        }
        return taken
    }

    @Test func `leaves most of it to one that is alone`() {
        #expect(fill(10_000, weights: [1]) == [8000])
        #expect(fill(10_000, weights: [0.001]) == [8000], "whatever its weight is")
    }

    @Test func `is in proportion to the weights`() {
        let taken = fill(10_000, weights: [3, 1])
        #expect((2.9...3.1).contains(Double(taken[0]) / Double(taken[1])), "\(taken)")
        #expect(taken.reduce(0, +) > 8000)
    }

    @Test(arguments: [1, 10, 100]) func `always leaves some for a newcomer`(others: Int) {
        let taken = fill(10_000, weights: Array(repeating: 1, count: others))
        let free = 10_000 - taken.reduce(0, +)
        #expect(free > 0)
        #expect(SharedRoom.more(having: 0, free: free, weight: 1, heaviest: 1) > 0)
    }

    @Test func `gives nothing where nothing is free, and one of many a place as long as something is`() {
        #expect(SharedRoom.more(having: 0, free: 0, weight: 1, heaviest: 1) == 0)
        #expect(SharedRoom.more(having: 0, free: 1, weight: 0.001, heaviest: 1000) == 1)
    }
}
