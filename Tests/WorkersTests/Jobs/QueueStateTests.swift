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
}
