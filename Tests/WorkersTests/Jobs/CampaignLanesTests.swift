import APNs
import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `Lanes of thousands of campaigns with a rate` {
    private let start = ContinuousClock.now

    private func lane(_ number: Int) -> Lane { Lane(rawValue: Int32(3 * number + 2))! }

    /// A queue with `campaigns` campaigns, and a job of each.
    private func makeQueue(campaigns: Int, recipients: Int = 1) -> QueueState {
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        for number in 1...campaigns {
            learn(number, rate: 1, queue)
            queue.add(job(number, recipients: recipients))
        }
        return queue
    }

    private func learn(_ number: Int, rate: Double?, _ queue: QueueState) {
        queue.campaigns.learn(
            .init(place: LanePlace(1, lane(number)), campaignID: Int64(number), rate: rate), now: start)
    }

    private func job(_ number: Int, recipients: Int = 1) -> HeldJob {
        JobFixture.job(recipients: recipients, id: Int64(number), lane: lane(number))
    }

    /// Gives a lane a permit that may be used after a delay.
    private func grant(_ number: Int, in queue: QueueState, after delay: Duration) {
        let campaign = queue.campaigns[lane(number)]!
        campaign.limit.add(PermitRun(start: start + delay, granted: start, rate: 1, count: 1))
        queue.campaigns.wake(campaign)
    }

    /// Sends to the next recipient.
    private func send(from job: HeldJob) {
        if job.takeRecipient() != nil { job.noteSent() }
    }

    private func ready(_ queue: QueueState) -> [Lane] { queue.campaigns.ready(asUrgentAs: .bulk).map(\.lane) }

    @Test func `are looked at when a permit is due, and not before`() {
        let queue = makeQueue(campaigns: 1000)
        #expect(queue.allowance(at: start) == 0)
        #expect(ready(queue) == [] && queue.hasJobs && queue.hasJobs(in: .bulk) && !queue.hasJobs(in: .urgent))
        #expect(queue.nextPermit == nil)

        grant(7, in: queue, after: .seconds(2))
        grant(70, in: queue, after: .seconds(1))
        #expect(queue.allowance(at: start) == 0)
        #expect(ready(queue) == [] && queue.nextPermit == start + .seconds(1))
        #expect(queue.allowance(at: start + .milliseconds(999)) == 0)
        let due = start + .seconds(1)
        #expect(queue.allowance(at: due) == 1)
        #expect(ready(queue) == [lane(70)] && queue.nextPermit == start + .seconds(2))
        #expect(queue.lanesOfTurn(isUrgent: false, .oldest).filter { !$0.isShared } == [lane(70)])

        _ = queue.sendableJob(in: lane(70), now: start)?.sendAll()
        queue.usePermits(1, in: lane(70), at: due)
        #expect(queue.allowance(at: due) == 0)
        #expect(ready(queue) == [])
        #expect(queue.campaigns.unsent == 999)
    }

    @Test func `hold up nothing when their jobs were given back`() {
        let queue = JobFixture.queue()
        learn(1, rate: 1, queue)
        let job = job(1)
        queue.add(job)
        #expect(queue.allowance(at: start) == 0)
        job.close(.expired)
        queue.forgetStock()
        #expect(!queue.hasJobs && queue.unsent == 0)
        queue.add(self.job(1))
        #expect(queue.hasJobs && queue.unsent == 1)
    }

    @Test func `say once that they lack permits, and again when they have more to send`() {
        let queue = makeQueue(campaigns: 3, recipients: 2)
        #expect(queue.takeLackOfPermits())
        #expect(!queue.takeLackOfPermits())
        for number in 1...3 {
            for delay in [0, 1] { grant(number, in: queue, after: .seconds(delay)) }
        }
        #expect(queue.allowance(at: start) == 3)
        send(from: queue.sendableJob(in: lane(2), now: start)!)
        queue.usePermits(1, in: lane(2), at: start)
        #expect(!queue.takeLackOfPermits(), "it has a permit for the one that is left")
        queue.add(job(2))
        #expect(queue.takeLackOfPermits())
    }

    @Test func `say that they lack permits once there is a connection, and when a rate is given to them`() {
        let queue = makeQueue(campaigns: 1)
        let gateway = FakeGateway()
        queue.route = GatewayRoute(gateway)
        gateway.state = .idle
        #expect(!queue.takeLackOfPermits(), "nobody takes permits that would lapse")
        gateway.state = .open
        #expect(queue.takeLackOfPermits())
        learn(1, rate: nil, queue)
        #expect(!queue.takeLackOfPermits())
        learn(1, rate: 2, queue)
        #expect(queue.takeLackOfPermits())
    }

    @Test func `say that permits have lapsed, so that others are taken`() {
        let queue = makeQueue(campaigns: 1)
        grant(1, in: queue, after: .zero)
        _ = queue.takeLackOfPermits()
        #expect(queue.allowance(at: start + .seconds(5)) == 0)
        #expect(queue.figures.counts.permitsLapsed == 1)
        #expect(queue.takeLackOfPermits())
    }

    @Test func `are sent as the rest of the queue when the rate is lifted`() {
        let queue = makeQueue(campaigns: 2)
        #expect(queue.allowance(at: start) == 0)
        learn(1, rate: nil, queue)
        #expect(queue.allowance(at: start) == .max)
        #expect(ready(queue) == [lane(1)] && queue.unsentWithoutOwnRate == 1)
    }

    /// Of a hundred campaigns at 1,000 a second each, in a queue with 1,000, a worker held what a hundred thousand a
    /// second would need, and gave most of it back after ten seconds.
    @Test func `share the rate of their queue if their rates add up to more`() {
        let queue = JobFixture.queue()
        queue.limit.change(to: 1000, now: start)
        for number in 1...3 { learn(number, rate: 200, queue) }
        #expect((1...3).map { queue.maximumRate(of: lane($0)) } == [200, 200, 200])
        learn(4, rate: 1400, queue)
        #expect((1...4).map { queue.maximumRate(of: lane($0)) } == [100, 100, 100, 700])
        learn(4, rate: nil, queue)
        #expect((1...4).map { queue.maximumRate(of: lane($0)) } == [200, 200, 200, 1000])
        let later = start + .seconds(31)
        queue.campaigns.learn(.init(place: LanePlace(1, lane(5)), campaignID: 5, rate: 2000), now: later)
        #expect(queue.maximumRate(of: lane(5)) == 1000, "the others have no work any more")
    }

    @Test func `run low when less than half of what a second takes is held, and more waits`() {
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        learn(1, rate: 10, queue)
        #expect(queue.isLow(in: lane(1)))
        let job = job(1, recipients: 6)
        queue.add(job)
        #expect(!queue.isLow(in: lane(1)) && !queue.takeRunsLow())
        queue.noteWaiting(in: lane(1), lowWater: 5)
        #expect(!queue.takeRunsLow())
        for _ in 0..<2 { send(from: job) }
        queue.usePermits(2, in: lane(1), at: start)
        #expect(queue.isLow(in: lane(1)) && queue.takeRunsLow())
        // A poll for the lane is under way. There must not be one for each push.
        send(from: job)
        queue.usePermits(1, in: lane(1), at: start)
        #expect(!queue.takeRunsLow())
        queue.noteWaiting(in: lane(1), lowWater: 5)
        send(from: job)
        queue.usePermits(1, in: lane(1), at: start)
        #expect(queue.takeRunsLow())
    }

    @Test func `do not run low while a claim takes what waits, unless it leaves more`() {
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        learn(1, rate: 10, queue)
        let job = job(1, recipients: 6)
        queue.add(job)
        queue.noteWaiting(in: lane(1), lowWater: 5)
        queue.forgetStock(in: lane(1))
        for _ in 0..<2 { send(from: job) }
        queue.usePermits(2, in: lane(1), at: start)
        #expect(!queue.takeRunsLow())
        queue.noteMoreWaiting(in: lane(1))
        send(from: job)
        queue.usePermits(1, in: lane(1), at: start)
        #expect(queue.takeRunsLow())
    }

    @Test func `are forgotten half a minute after they last had work`() {
        let queue = makeQueue(campaigns: 2)
        let campaign = queue.campaigns[lane(2)]!
        #expect(queue.sendableJob(in: lane(2), now: start)?.sendAll() == [0])
        queue.forgetStock()
        let later = start + .seconds(31)
        queue.campaigns.learn(.init(place: LanePlace(1, lane(3)), campaignID: 3, rate: 1), now: later)
        #expect(queue.knows(lane(1)) && queue.knows(lane(3)))
        #expect(!queue.knows(lane(2)), "\(campaign.heldJobs) held")
    }
}
