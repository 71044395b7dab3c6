import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `When campaigns make jobs` {
    private func campaign(
        _ queue: Int32, _ lane: Lane = .bulk, readyJobs: Int = 0, dueIn: Duration = .zero
    ) -> ReadyWork.FanOut {
        .init(place: LanePlace(queue, lane), campaignID: Int64(queue), readyJobs: readyJobs, dueIn: dueIn)
    }

    private let queue = FanOutPlan.Demand()
    private let start = ContinuousClock.now

    @Test func `is when what is ready lasts for less than two seconds`() {
        var fast = queue
        fast.sendRate = 50_000
        #expect(FanOutPlan.runsDry(fast, readyJobs: 199))
        #expect(!FanOutPlan.runsDry(fast, readyJobs: 200))
        fast.sendRate = 1_000_000
        #expect(FanOutPlan.runsDry(fast, readyJobs: 399))
        #expect(!FanOutPlan.runsDry(fast, readyJobs: 400), "look no further ahead than is counted")
    }

    @Test func `is when fewer than 80 jobs are ready, however slow the queue is sent, or four under a rate limit`() {
        #expect(FanOutPlan.runsDry(queue, readyJobs: 79))
        #expect(!FanOutPlan.runsDry(queue, readyJobs: 80))
        var paced = queue
        (paced.rate, paced.jobSize, paced.sendRate) = (100, 200, 50_000)
        #expect(FanOutPlan.runsDry(paced, readyJobs: 3))
        #expect(!FanOutPlan.runsDry(paced, readyJobs: 4))
        // Jobs of this size take less than two seconds at this rate.
        (paced.rate, paced.jobSize) = (5000, 500)
        #expect(FanOutPlan.runsDry(paced, readyJobs: 19))
        #expect(!FanOutPlan.runsDry(paced, readyJobs: 20))
    }

    @Test func `makes no more jobs under a rate limit than are to be ready`() {
        var paced = queue
        (paced.rate, paced.jobSize) = (100, 200)
        var plan = FanOutPlan()
        plan.note([campaign(1), campaign(2)], now: start) { $0.queueID == 1 ? paced : queue }
        let first = plan.next()
        plan.noteDone(hasFoundWork: true, now: start)
        let second = plan.next()
        #expect(first == .init(place: LanePlace(1, .bulk), jobs: 4))
        #expect(second == .init(place: LanePlace(2, .bulk), jobs: 40))
    }

    @Test func `is never while their queue is paused, is another worker's, or before they start`() {
        var paused = queue
        paused.maySend = false
        var plan = FanOutPlan()
        plan.note([campaign(1), campaign(2), campaign(3, dueIn: .milliseconds(1))], now: start) { place in
            place.queueID == 1 ? paused : place.queueID == 2 ? nil : queue
        }
        #expect(!plan.hasWork)
        let step = plan.next()
        #expect(step == nil)
    }

    @Test func `is in the order in which they were found, one after the other`() {
        var plan = FanOutPlan()
        plan.note([campaign(2), campaign(1)], now: start) { _ in queue }
        let first = plan.next()
        plan.noteDone(hasFoundWork: true, now: start)
        let second = plan.next()
        plan.noteDone(hasFoundWork: true, now: start)
        let third = plan.next()
        #expect([first, second, third].map { $0?.place } == [LanePlace(2, .bulk), LanePlace(1, .bulk), nil])
    }

    @Test func `is for urgent ones before all others, each by what is ready of its own lane`() {
        var paced = queue
        (paced.rate, paced.jobSize) = (100, 200)
        var plan = FanOutPlan()
        plan.note(
            [campaign(1, readyJobs: 4), campaign(2), campaign(1, .urgent), campaign(3, .urgent, readyJobs: 4)],
            now: start
        ) {
            _ in paced
        }
        let first = plan.next()
        plan.noteDone(hasFoundWork: true, now: start)
        let second = plan.next()
        plan.noteDone(hasFoundWork: true, now: start)
        #expect([first, second].map { $0?.place } == [LanePlace(1, .urgent), LanePlace(2, .bulk)])
        #expect(!plan.hasWork)
    }

    @Test func `is not told anew of a lane that has a step under way, whose jobs are not counted yet`() {
        var plan = FanOutPlan()
        plan.note([campaign(1)], now: start) { _ in queue }
        _ = plan.next()
        plan.note([campaign(1), campaign(2)], now: start) { _ in queue }
        plan.noteDone(hasFoundWork: true, now: start)
        let next = plan.next()
        #expect(next?.place == LanePlace(2, .bulk))
        plan.noteDone(hasFoundWork: true, now: start)
        #expect(!plan.hasWork)
    }

    @Test func `is not any more for those that the next poll does not find`() {
        var plan = FanOutPlan()
        plan.note([campaign(1), campaign(2)], now: start) { _ in queue }
        plan.note([campaign(2)], now: start) { _ in queue }
        let next = plan.next()
        #expect(next?.place == LanePlace(2, .bulk))
    }

    @Test func `is never after the order to stop`() {
        var plan = FanOutPlan()
        plan.note([campaign(1)], now: start) { _ in queue }
        plan.stop()
        let next = plan.next()
        #expect(next == nil)
    }

    @Test func `takes turns of tenants, whatever the number of their queues, and of the lanes of each`() {
        var plan = FanOutPlan()
        var order: [Int32] = []
        for _ in 1...8 {
            // A poll before each step finds all campaigns again. Queue 9 belongs to another tenant.
            plan.note([1, 2, 3, 9].map { campaign($0) }, now: start) { place in
                FanOutPlan.Demand(tenantID: place.queueID == 9 ? 2 : 1)
            }
            if let step = plan.next() { order.append(step.place.queueID) }
            plan.noteDone(hasFoundWork: true, now: start)
        }
        #expect(order == [1, 9, 2, 9, 3, 9, 1, 9])
    }

    @Test func `leaves a lane alone for longer and longer while its steps find nothing to do, and no other`() {
        var plan = FanOutPlan()
        var tries: [Duration] = []
        for instant in stride(from: 0, through: 2000, by: 5).map({ start + .milliseconds($0) }) {
            plan.note([campaign(1), campaign(2)], now: instant) { _ in queue }
            var steps: [Int32] = []
            while let step = plan.next() {
                steps.append(step.place.queueID)
                plan.noteDone(hasFoundWork: step.place.queueID == 2, now: instant)
            }
            if steps.contains(1) { tries.append(start.duration(to: instant)) }
            #expect(steps.contains(2))
        }
        #expect(tries == [0, 10, 30, 70, 150, 310, 630, 1130, 1630].map { .milliseconds($0) })

        // A campaign that a poll does not find starts anew when it is found again.
        plan.note([], now: start + .seconds(3)) { _ in queue }
        plan.note([campaign(1)], now: start + .seconds(3)) { _ in queue }
        let isTried = plan.next() != nil
        #expect(isTried)
    }
}
