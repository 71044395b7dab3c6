import APNs
import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `Jobs that a queue knows to wait` {
    @Test func `are none any more once a poll has looked at the queue and found none`() {
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        queue.noteWaiting(in: .bulk, lowWater: 5)
        #expect(queue.takeRunsLow())
        queue.forgetStock(before: [], within: [QueueRange(7)], coversAll: true)
        queue.forgetStock(before: [], within: [QueueRange(queue.id)], coversAll: false)
        #expect(queue.takeRunsLow(), "that poll did not come to it")
        queue.forgetStock(before: [], within: [QueueRange(queue.id)], coversAll: true)
        #expect(!queue.takeRunsLow())
    }

    @Test func `are none any more while a claim takes them, unless it leaves some or another lane has some`() {
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        for lane in [Lane.normal, .bulk] { queue.noteWaiting(in: lane, lowWater: 5) }
        queue.forgetStock(in: .normal)
        #expect(queue.takeRunsLow(), "they wait in the other lane")
        queue.forgetStock(in: .bulk)
        #expect(!queue.takeRunsLow())
        queue.noteMoreWaiting(in: .bulk)
        #expect(queue.takeRunsLow())
        queue.add(JobFixture.job(recipients: 5, lane: .normal))
        #expect(!queue.takeRunsLow(), "it holds enough")
    }
}

@Suite struct `Broadcasts to a host of their own` {
    /// After an outage, that host takes one broadcast at a time for a while.
    @Test func `keep no push to a device waiting while their host takes none`() {
        let now = ContinuousClock.now
        let queue = JobFixture.queue()
        queue.route = GatewayRoute(FakeGateway())
        let host = GatewayRoute(FakeGateway())
        queue.broadcastRoute = host
        let broadcast = JobFixture.job(recipients: 1, isBroadcast: true, id: 1, lane: .normal)
        let push = JobFixture.job(recipients: 1, id: 2, lane: .normal)
        for job in [broadcast, push] { queue.add(job) }
        #expect(queue.sendableJob(in: .normal, now: now) === broadcast)
        _ = host.circuit.noteRest(because: "an outage", now: now)
        #expect(host.circuit.room(now: now) == 0 && host.gateway.freeSlots > 0)
        #expect(queue.sendableJob(in: .normal, now: now) === push)
    }
}
