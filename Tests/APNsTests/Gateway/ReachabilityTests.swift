import QueueCore
import Testing

@testable import APNs

@Suite struct `The reachability of APNs` {
    private var reachability = Reachability(backoff: Backoff(base: .seconds(1), cap: .seconds(60)))
    private var generator = SystemRandomNumberGenerator()
    private let start = ContinuousClock.now

    /// The delays of a downtime in which every attempt fails at once.
    private mutating func waits(_ count: Int) -> [Duration] {
        (0..<count).map { _ in
            let now = reachability.downtime?.nextAttempt ?? start
            reachability.failed("refused", now: now, using: &generator)
            return now.duration(to: reachability.downtime!.nextAttempt)
        }
    }

    @Test mutating func `is tried again after a second, two, four and so on at most, with full jitter`() {
        var spread: Set<Duration> = []
        for _ in 0..<200 {
            reachability.proved()
            let waits = waits(6)
            for (wait, ceiling) in zip(waits, [1, 2, 4, 8, 16, 32]) { #expect(wait <= .seconds(ceiling)) }
            spread.insert(waits[0])
        }
        #expect(spread.count > 150)
        #expect(spread.contains { $0 < .milliseconds(250) } && spread.contains { $0 > .milliseconds(750) })
    }

    @Test mutating func `is tried at most once a minute in a long downtime`() {
        let waits = waits(100)
        var lasted = Duration.zero
        for wait in waits {
            if lasted >= .seconds(60) { #expect(wait >= .seconds(60) && wait <= .seconds(70)) }
            lasted += wait
        }
        #expect(lasted > .seconds(90 * 60))
    }

    @Test mutating func `is not away for longer after a downtime than that has lasted`() {
        for _ in 0..<200 {
            reachability.proved()
            var lasted = Duration.zero
            for (number, wait) in waits(9).enumerated() {
                // From the seventh attempt on there is a wait of ten seconds at least, because each attempt may
                // prolong a ban.
                if number >= 6 {
                    #expect(
                        wait <= max(lasted, .seconds(10)) * 7 / 6
                            && wait >= min(max(lasted, .seconds(10)), .seconds(60)))
                }
                lasted += wait
            }
        }
    }

    @Test mutating func `has a downtime with a beginning, the last error and the next attempt`() {
        _ = waits(3)
        #expect(reachability.downtime?.since == start)
        #expect(reachability.downtime?.error == "refused")
        reachability.reached()
        #expect(reachability.downtime == nil)
    }

    @Test mutating func `goes on counting while connections open and do not last`() {
        for _ in 0..<7 {
            _ = waits(1)
            reachability.reached()
        }
        let later = start + .seconds(300)
        reachability.failed("cut", now: later, using: &generator)
        #expect(later.duration(to: reachability.downtime!.nextAttempt) >= .seconds(60))
        reachability.proved()
        reachability.failed("cut", now: start, using: &generator)
        #expect(start.duration(to: reachability.downtime!.nextAttempt) <= .seconds(1))
    }
}
