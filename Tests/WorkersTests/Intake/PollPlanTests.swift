import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `Which lanes a poll comes to` {
    private let start = ContinuousClock.now

    private func work(_ queues: ClosedRange<Int32>, end: Int32? = nil) -> ReadyWork {
        ReadyWork(
            jobs: queues.map { queue in
                let place = LanePlace(queue, .bulk)
                return .init(
                    queueID: queue, lane: .bulk, dueIn: .zero, head: LaneHead(place, runAt: 1, jobID: 1))
            }, fanOuts: [], end: end.map { LanePlace($0, .bulk) })
    }

    /// Polls, and claims from what was found.
    private func poll(
        _ plan: inout PollPlan, finding work: ReadyWork, claims: Bool = true, served: Int32? = nil,
        took time: Duration = .milliseconds(1)
    ) {
        plan.note(work, of: plan.next(at: start), begun: start, now: start + time)
        plan.noteClaim(
            isEmpty: !claims, lastServed: served.map { LanePlace($0, .bulk) }, end: work.end)
    }

    @Test func `are a part of them, and the next poll begins where this one ended`() {
        var plan = PollPlan()
        #expect(plan.next(at: start) == .lanes(after: .start, atMost: 500))
        poll(&plan, finding: work(1...500, end: 500))
        #expect(plan.next(at: start) == .lanes(after: LanePlace(500, .bulk), atMost: 500))
        poll(&plan, finding: work(501...600))
        #expect(plan.next(at: start) == .lanes(after: .start, atMost: 500))
    }

    @Test func `begin behind those that were claimed from, if others were left out`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...400), served: 20)
        #expect(plan.next(at: start) == .lanes(after: LanePlace(20, .bulk), atMost: 500))
    }

    @Test func `are all of them, as long as a part was polled and nothing of it could be claimed`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...500, end: 500), claims: false)
        #expect(plan.next(at: start) == .lanes(after: LanePlace(500, .bulk), atMost: .max))
        poll(&plan, finding: work(1...600), claims: false)
        #expect(plan.next(at: start) == .lanes(after: .start, atMost: .max))
        poll(&plan, finding: work(1...600))
        #expect(plan.next(at: start) == .lanes(after: .start, atMost: 500))
    }

    @Test func `begin at floors while a poll of all of them is slow, and the campaigns are those of that poll`() {
        var plan = PollPlan()
        var slow = work(1...2)
        slow.addCampaign(of: 2)
        poll(&plan, finding: slow, took: .milliseconds(50))
        plan.noteClaimed(from: LanePlace(2, .bulk))
        let floor = LaneHead(LanePlace(2, .bulk), runAt: 1, jobID: 1)
        #expect(plan.next(at: start + .milliseconds(100)) == .floors([floor]))
        plan.note(work(1...2), of: .floors([floor]), begun: start, now: start)
        #expect(plan.campaigns.map(\.queueID) == [2])
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500))
    }
}

extension ReadyWork {
    fileprivate mutating func addCampaign(of queue: Int32) {
        self = ReadyWork(
            jobs: jobs, fanOuts: [.init(place: LanePlace(queue, .bulk), campaignID: 1, readyJobs: 0, dueIn: .zero)],
            end: end)
    }
}
