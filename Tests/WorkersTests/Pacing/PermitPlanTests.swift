import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite struct `Planning what permits to take` {
    private let start = ContinuousClock.now
    private let plan = PermitPlan(horizon: .milliseconds(250))

    private func queue(
        _ id: Int32 = 1, unsent: Int = 1000, permits: Int = 0, rate: Double = 100, weight: Double = 1
    ) -> PermitPlan.Line {
        .init(
            owner: .queue(id, ofTenant: 7), unsent: unsent, permits: permits, rate: rate, weight: weight,
            nextTake: start)
    }

    private func request(_ id: Int32 = 1, _ wanted: Int, held: Int = 0, share: Double = 1) -> PermitRequest {
        .init(owner: .queue(id, ofTenant: 7), wanted: wanted, held: held, share: share)
    }

    @Test func `asks for as many as the rate has within the horizon, for all queues at once`() {
        let step = plan.next([queue(), queue(2, rate: 4000)], now: start)
        #expect(step == .take([request(1, 25), request(2, 1000)]))
    }

    @Test func `asks for no more than there are recipients without one`() {
        let step = plan.next([queue(unsent: 30, permits: 20), queue(2, unsent: 20, permits: 20)], now: start)
        #expect(step == .take([request(1, 10, held: 20)]))
    }

    @Test func `asks for one at a time below four a second`() {
        #expect(plan.next([queue(rate: 0.5)], now: start) == .take([request(1, 1)]))
    }

    @Test func `says what weight each has among those of its tenant that have somebody to send to`() {
        let lines = [queue(weight: 2), queue(2, weight: 8), queue(3, unsent: 0, weight: 100)]
        #expect(plan.next(lines, now: start) == .take([request(1, 25, share: 0.25), request(2, 25, share: 1)]))
    }

    @Test func `waits for the first queue that may be asked for again, and for a second at the most`() {
        var (soon, later) = (queue(), queue(2))
        soon.nextTake = start + .milliseconds(40)
        later.nextTake = start + .seconds(3)
        #expect(plan.next([later, soon], now: start) == .wait(.milliseconds(40)))
        #expect(plan.next([later], now: start) == .wait(.seconds(1)))
        #expect(plan.next([], now: start) == .wait(.seconds(1)))
    }

    @Test(arguments: [(0, 0), (99, 0), (1000, 20), (10_000, 200)])
    func `looks at once at a few, and at thousands so seldom that it takes little of a core`(lines: Int, rest: Int) {
        #expect(plan.rest(afterLookingAt: lines) == .milliseconds(rest))
    }

    @Test func `asks again soon where another worker was taking some, and later where PostgreSQL is away`() {
        #expect(plan.nextTake(afterNoGrant: true, now: start) == start + .microseconds(15_625))
        #expect(plan.nextTake(afterNoGrant: false, now: start) == start + .milliseconds(125))
    }

    private func grant(_ count: Int) -> GrantedPermits {
        .init(
            owner: .tenant(7), count: count, rate: 100, startsIn: .milliseconds(20), lateness: .milliseconds(50),
            againIn: .zero, grantedAt: 0)
    }

    /// A moment that lies within some time before the start.
    private func moment(within time: Duration, isSettled: Bool = false) -> DatabaseClock.Moment {
        .init(earliest: start - time, latest: start, isSettled: isSettled)
    }

    @Test func `makes a run of a grant, and none of an empty one`() {
        let run = plan.run(of: grant(3), at: moment(within: .zero))
        #expect(run?.next == start + .milliseconds(20))
        #expect(run?.count == 3)
        #expect(run?.lateness == .milliseconds(50))
        #expect(plan.run(of: grant(0), at: moment(within: .zero)) == nil)
    }

    @Test func `lets no permit be used before its time or after it lapses, whenever it was granted`() throws {
        var run = try #require(plan.run(of: grant(3), at: moment(within: .milliseconds(10))))
        #expect(run.available(at: start + .milliseconds(19)) == 0)
        #expect(run.available(at: start + .milliseconds(20)) == 1)
        // If it was granted at the earliest moment, the first permit was due 10 ms after the start.
        #expect(run.available(at: start + .milliseconds(59)) == 3)
        #expect(run.available(at: start + .milliseconds(60)) == 2)
    }

    @Test func `makes no run if nobody can tell when it was granted, but a short one far away from PostgreSQL`() {
        for time in [Duration.milliseconds(50), .seconds(2)] {
            #expect(plan.run(of: grant(3), at: moment(within: time)) == nil)
            let run = plan.run(of: grant(3), at: moment(within: time, isSettled: true))
            #expect(run?.lateness == .microseconds(12_500))
        }
    }
}
