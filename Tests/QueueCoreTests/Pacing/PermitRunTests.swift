import QueueCore
import Testing

@Suite struct `A run of permits` {
    let start = ContinuousClock.now

    @Test func `lets one go at a time, each at its own`() {
        var run = PermitRun(start: start, granted: start, rate: 100, count: 5)
        var used: [Int] = []
        for millisecond in 0...45 {
            let count = run.available(at: start + .milliseconds(millisecond))
            run.use(count)
            if count > 0 { used.append(millisecond) }
        }
        #expect(used == [0, 10, 20, 30, 40])
        #expect(run.isSpent)
        #expect(run.next == nil)
    }

    @Test func `lets the burst go at once when it is granted`() {
        // The permits were due since 40 ms ago by the rate: the burst allows this.
        var run = PermitRun(start: start - .milliseconds(40), granted: start, rate: 100, count: 10)
        #expect(run.available(at: start - .milliseconds(1)) == 0)
        #expect(run.available(at: start) == 5)
        run.use(5)
        #expect(run.next == start + .milliseconds(10))
        #expect(run.available(at: start + .milliseconds(10)) == 1)
    }

    @Test func `lapses: what a sleeper took is void when it wakes`() {
        var run = PermitRun(start: start, granted: start, rate: 100, count: 50)
        let woken = start + .milliseconds(300)
        // 31 permits were due by then. Those due by 200 ms have lapsed.
        #expect(run.available(at: woken) == 10)
        #expect(run.spent == 21)
        #expect(run.available(at: start + .seconds(10)) == 0)
        #expect(run.isSpent)
    }

    @Test(arguments: [0.7, 3, 250, 1019.0 / 60, 100_000])
    func `never lets more go than rate and grace allow`(rate: Double) {
        let count = Int(rate * 2) + 2
        var run = PermitRun(start: start, granted: start, rate: rate, count: count)
        var used = 0
        for millisecond in stride(from: 0, through: 3000, by: 7) {
            let now = run.available(at: start + .milliseconds(millisecond))
            run.use(now)
            used += now
            #expect(Double(used) <= rate * Double(millisecond) / 1000 + 1.000001)
        }
        #expect(used == count)
    }
}
