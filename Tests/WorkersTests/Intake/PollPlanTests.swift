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
                return .init(dueIn: .seconds(-1), head: LaneHead(place, runAt: 1, jobID: 1))
            }, fanOuts: [], end: end.map { LanePlace($0, .bulk) })
    }

    /// Polls, and claims one job from each lane found, from as many lanes as one claim may serve.
    private func poll(
        _ plan: inout PollPlan, finding work: ReadyWork, isDue: Bool = true, isConnected: Bool = false,
        atMost lanes: Int32 = 500, at now: ContinuousClock.Instant? = nil, took time: Duration = .milliseconds(1)
    ) {
        let now = now ?? start
        let poll = plan.next(at: now)
        plan.note(work, of: poll, begun: now, now: now + time)
        let candidates = work.jobs.map { jobs in
            ClaimPlan.Candidate(
                tenantID: 1, place: jobs.head.place, head: jobs.head, dueIn: isDue ? .zero : .seconds(60),
                isConnected: isConnected)
        }
        let claim = ClaimPlan(
            for: candidates, from: plan.place, maximumLanes: lanes,
            worker: .init(maximumHeld: 1_000_000, maximumLeases: 1_000_000))
        plan.note(claim, after: poll, end: work.end, now: now)
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
        poll(&plan, finding: work(1...400), atMost: 20)
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(20, .bulk), atMost: 500, campaigns: true))
    }

    @Test func `begin no further behind than where the last one looked for campaigns, too`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...400, end: 10), atMost: 20)
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(10, .bulk), atMost: 500, campaigns: true))
        // The poll wrapped around, so its end is beyond what was served.
        poll(&plan, finding: work(1...400, end: 5), atMost: 30, at: start + .seconds(1))
        #expect(
            plan.next(at: start + .seconds(2)) == .lanes(after: LanePlace(40, .bulk), atMost: 500, campaigns: true))
    }

    @Test func `are all of them, as long as a part was polled and nothing of it could be claimed`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...500, end: 500), isDue: false)
        #expect(
            plan.next(at: start + .seconds(1)) == .lanes(after: LanePlace(500, .bulk), atMost: .max, campaigns: true)
        )
        poll(&plan, finding: work(1...600), isDue: false)
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: .max, campaigns: true))
        poll(&plan, finding: work(1...600), atMost: 600)
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
    }

    @Test func `begin at floors while a poll of all of them is slow, and the campaigns are those of that poll`() {
        var plan = PollPlan()
        var slow = work(1...2)
        slow.addCampaign(of: 2)
        poll(&plan, finding: slow, took: .milliseconds(50))
        plan.noteClaimed(from: LanePlace(2, .bulk), now: start)
        let floor = LaneHead(LanePlace(2, .bulk), runAt: 1, jobID: 1)
        #expect(plan.next(at: start + .milliseconds(100)) == .floors([floor], campaigns: false))
        plan.note(work(1...2), of: .floors([floor], campaigns: false), begun: start, now: start)
        #expect(plan.campaigns.map(\.queueID) == [2])
        #expect(plan.next(at: start + .seconds(1)) == .lanes(after: .start, atMost: 500, campaigns: true))
    }

    /// PostgreSQL may be far away, or one poll have been held up. Then the next poll would cost as much at floors, and
    /// find no new campaign.
    @Test func `are all of each after a slow poll, too, as long as there is no floor`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...2), took: .milliseconds(50))
        plan.noteClaimed(from: LanePlace(7, .bulk), now: start)
        let now = start + .milliseconds(100)
        #expect(plan.next(at: now) == .lanes(after: .start, atMost: 500, campaigns: false))
        #expect(plan.presumed(at: now) == [], "a claim without a poll would take as long")
        plan.noteClaimed(from: LanePlace(2, .bulk), now: start)
        #expect(plan.next(at: now) == .floors([LaneHead(LanePlace(2, .bulk), runAt: 1, jobID: 1)], campaigns: false))
    }

    @Test func `look at campaigns for a tenth of the time, and at lanes more often`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...2), took: .milliseconds(30))
        #expect(!plan.next(at: start + .milliseconds(299)).coversCampaigns)
        #expect(plan.next(at: start + .milliseconds(300)).coversCampaigns)
        // A poll of lanes alone takes no time, but this says nothing about a poll with campaigns.
        let lanes = PollPlan.Poll.lanes(after: .start, atMost: 500, campaigns: false)
        plan.note(work(1...2), of: lanes, begun: start + .milliseconds(100), now: start + .milliseconds(100))
        #expect(!plan.next(at: start + .milliseconds(299)).coversCampaigns)
        #expect(plan.next(at: start + .milliseconds(300)).coversCampaigns)
    }

    @Test func `look at campaigns each time while there is nothing to claim`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...2), isDue: false, took: .milliseconds(30))
        #expect(plan.next(at: start + .milliseconds(40)).coversCampaigns)
    }

    @Test func `are those in use alone, while the others are looked at for a tenth of the time`() {
        var plan = PollPlan()
        poll(&plan, finding: work(1...3), isConnected: true, at: start)
        let inUse = PollPlan.Poll.within((1...3).map { QueueRange($0) }, own: [], atMost: 500)
        // Thousands of other queues get work. Each poll covers a part of them.
        poll(&plan, finding: work(4...503, end: 503), at: start + .seconds(1), took: .milliseconds(5))
        poll(&plan, finding: work(504...1003, end: 1003), at: start + .seconds(2), took: .milliseconds(5))
        for _ in 0..<8 { plan.note(work(1...3), of: inUse, begun: start, now: start) }
        #expect(plan.next(at: start + .seconds(2) + .milliseconds(9)) == inUse)
        #expect(
            plan.next(at: start + .seconds(2) + .milliseconds(10))
                == .lanes(after: LanePlace(1003, .bulk), atMost: 500, campaigns: true))
    }

    @Test func `are all but those that wait for room, while these are looked at for a tenth of the time`() {
        var plan = PollPlan()
        poll(&plan, finding: work(5...5), isConnected: true, at: start)
        // Twenty of five hundred queues get room. The others wait, except the one that sends now.
        let crowd = start + .seconds(1)
        poll(&plan, finding: work(2...501, end: 501), isConnected: true, atMost: 20, at: crowd, took: .milliseconds(5))
        let others = plan.next(at: crowd + .milliseconds(6))
        #expect(
            others
                == .within(
                    [QueueRange(after: -1, before: 22), QueueRange(after: 501, before: .max)], own: [], atMost: 500))
        // A poll that reaches its limit shows that there are too many of these queues.
        plan.note(work(600...1099, end: 1099), of: others, begun: crowd, now: crowd)
        let inUse = PollPlan.Poll.within((2...21).map { QueueRange($0) }, own: [], atMost: 500)
        #expect(plan.next(at: crowd + .milliseconds(6)) == inUse)
        // Seconds later, no queue is known to wait any more.
        poll(&plan, finding: work(1...3), isConnected: true, at: crowd + .seconds(10), took: .milliseconds(5))
        guard case .within(let ranges, _, _) = plan.next(at: crowd + .seconds(10) + .milliseconds(6)) else {
            Issue.record("it does not look at those in use")
            return
        }
        #expect(ranges.contains(QueueRange(1)) && !ranges.contains { $0.contains(300) })
    }

    @Test func `are those of campaigns that need jobs, ten times a second, until one of them has no more`() {
        var plan = PollPlan()
        // A shared lane and a campaign's lane in each of three queues.
        let own = (1...3).map { LanePlace($0, Lane(rawValue: 5)!) }
        var both = work(1...3)
        both = ReadyWork(
            jobs: both.jobs + own.map { .init(dueIn: .zero, head: LaneHead($0, runAt: 1, jobID: 2)) }, fanOuts: [])
        poll(&plan, finding: both, isConnected: true, took: .milliseconds(20))
        poll(&plan, finding: work(4...503, end: 503), at: start + .seconds(1), took: .milliseconds(20))
        let needy = { (place: LanePlace) in place.queueID != 2 }
        let now = start + .seconds(1) + .milliseconds(30)
        guard case .within(_, let asked, _) = plan.next(at: now, isLow: needy) else {
            Issue.record("it does not look at those in use")
            return
        }
        #expect(Set(asked) == [own[0], own[2]])
        guard case .within(_, let soon, _) = plan.next(at: now + .milliseconds(50), isLow: needy) else { return }
        #expect(soon == [])
        // The first campaign has no jobs left.
        let found = ReadyWork(
            jobs: [], fanOuts: [], ownLanes: [.init(place: own[2], campaignID: 1, rate: 2)], end: nil)
        plan.note(found, of: .within([], own: asked, atMost: 500), begun: now, now: now)
        guard case .within(_, let later, _) = plan.next(at: now + .milliseconds(100), isLow: needy) else {
            Issue.record("it does not look at those in use any more")
            return
        }
        #expect(later == [own[2]])
        // A minute after the last claim, a lane no longer counts as in use.
        let old = start + .seconds(61)
        poll(&plan, finding: work(4...503, end: 503), isConnected: true, at: old, took: .milliseconds(20))
        guard case .within(_, let last, _) = plan.next(at: old + .milliseconds(30), isLow: needy) else {
            Issue.record("it does not look at those in use at the end")
            return
        }
        #expect(last == [])
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
