import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite struct `Taking permits` {
    private let start = ContinuousClock.now
    private let plan = PermitPlan(horizon: .milliseconds(250))

    private func queue(_ id: Int32 = 1, unsent: Int = 1000, permits: Int = 0, rate: Double = 100) -> PermitPlan.Limit {
        .init(owner: .queue(id), unsent: unsent, permits: permits, rate: rate, nextTake: start)
    }

    @Test func `asks for as many as the rate has within the horizon, for all queues at once`() {
        let step = plan.next([queue(), queue(2, rate: 4000)], now: start)
        #expect(step == .take([.init(owner: .queue(1), permits: 25), .init(owner: .queue(2), permits: 1000)]))
    }

    @Test func `asks for no more than there are recipients without one`() {
        let step = plan.next([queue(unsent: 30, permits: 20), queue(2, unsent: 20, permits: 20)], now: start)
        #expect(step == .take([.init(owner: .queue(1), permits: 10)]))
    }

    @Test func `asks for one at a time below four a second`() {
        #expect(plan.next([queue(rate: 0.5)], now: start) == .take([.init(owner: .queue(1), permits: 1)]))
    }

    @Test func `waits for the first queue that may be asked for again, and for a second at the most`() {
        var (soon, later) = (queue(), queue(2))
        soon.nextTake = start + .milliseconds(40)
        later.nextTake = start + .seconds(3)
        #expect(plan.next([later, soon], now: start) == .wait(.milliseconds(40)))
        #expect(plan.next([later], now: start) == .wait(.seconds(1)))
        #expect(plan.next([], now: start) == .wait(.seconds(1)))
    }

    @Test func `asks again soon where another worker was taking some, and later where PostgreSQL is away`() {
        #expect(plan.nextTake(afterNoGrant: true, now: start) == start + .microseconds(15_625))
        #expect(plan.nextTake(afterNoGrant: false, now: start) == start + .milliseconds(125))
    }

    @Test func `sleeps after a grant until the next permit comes within half the horizon`() {
        let slow = PermitPlan.Grant(count: 1, startsIn: .zero, rate: 0.5)
        #expect(plan.nextTake(after: slow, now: start) == start + .milliseconds(1875))
        let fast = PermitPlan.Grant(count: 5, startsIn: .zero, rate: 1000)
        #expect(plan.nextTake(after: fast, now: start) == start + .milliseconds(5))
    }

    @Test func `makes a run of a grant, and none of an empty one`() {
        let grant = PermitPlan.Grant(count: 3, startsIn: .milliseconds(20), rate: 100)
        let run = plan.run(of: grant, now: start)
        #expect(run?.next == start + .milliseconds(20))
        #expect(run?.count == 3)
        #expect(plan.run(of: .init(count: 0, startsIn: .zero, rate: 100), now: start) == nil)
    }
}
