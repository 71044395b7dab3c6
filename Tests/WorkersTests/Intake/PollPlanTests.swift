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
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
        poll(&plan, finding: work(1...500, end: 500))
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(500, .bulk), atMost: 500, campaigns: true))
        poll(&plan, finding: work(501...600))
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
    }

    @Test func `begin behind those that were claimed from, if others were left out`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...400), served: 20)
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(20, .bulk), atMost: 500, campaigns: true))
    }

    @Test func `are all of them, as long as a part was polled and nothing of it could be claimed`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...500, end: 500), claims: false)
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(500, .bulk), atMost: .max, campaigns: true)
        )
        poll(&plan, finding: work(1...600), claims: false)
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: .max, campaigns: true))
        poll(&plan, finding: work(1...600))
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
    }

    @Test func `begin at floors while a poll of all of them is slow, and the campaigns are those of that poll`() {
        var plan = PollPlan()
        var slow = work(1...2)
        slow.addCampaign(of: 2)
        poll(&plan, finding: slow, took: .milliseconds(50))
        plan.noteClaimed(from: LanePlace(2, .bulk))
        let floor = LaneHead(LanePlace(2, .bulk), runAt: 1, jobID: 1)
        #expect(plan.next(at: start + .milliseconds(100)) == .floors([floor], campaigns: false))
        plan.note(work(1...2), of: .floors([floor], campaigns: false), begun: start, now: start)
        #expect(plan.campaigns.map(\.queueID) == [2])
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
    }

    @Test func `look at campaigns for a tenth of the time, and at lanes more often`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...2), took: .milliseconds(30))
        #expect(!plan.next(at: start + .milliseconds(299)).coversCampaigns)
        #expect(plan.next(at: start + .milliseconds(300)).coversCampaigns)
        // The lanes alone are looked at in no time, which says nothing of the campaigns.
        let lanes = PollPlan.Poll.lanes(after: .start, atMost: 500, campaigns: false)
        plan.note(work(1...2), of: lanes, begun: start + .milliseconds(100), now: start + .milliseconds(100))
        #expect(!plan.next(at: start + .milliseconds(299)).coversCampaigns)
        #expect(plan.next(at: start + .milliseconds(300)).coversCampaigns)
    }

    @Test func `look at campaigns each time while there is nothing to claim`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...2), claims: false, took: .milliseconds(30))
        #expect(plan.next(at: start + .milliseconds(40)).coversCampaigns)
    }

    @Test func `keep the campaigns that an earlier poll found, if this one has not looked at them`() {
        var plan = PollPlan()
        var found = work(1...2)
        found.addCampaign(of: 2)
        poll(&plan, finding: found, took: .milliseconds(30))
        let lanes = ReadyWork(jobs: work(1...2).jobs, fanOuts: [], coversCampaigns: false, end: nil)
        plan.note(lanes, of: .lanes(after: .start, atMost: 500, campaigns: false), begun: start, now: start)
        #expect(plan.campaigns.map(\.queueID) == [2])
    }
}

extension ReadyWork {
    fileprivate mutating func addCampaign(of queue: Int32) {
        self = ReadyWork(
            jobs: jobs, fanOuts: [.init(place: LanePlace(queue, .bulk), campaignID: 1, readyJobs: 0, dueIn: .zero)],
            end: end)
    }
}
