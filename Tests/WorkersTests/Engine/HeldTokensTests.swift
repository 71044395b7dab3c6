import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A push that a worker has claimed and not come to` {
    @Test func `does not go to a device that was deactivated meanwhile`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 60)
            // One job, because there is no rate limit yet. With the limit, the last recipient's turn comes three
            // seconds after the first's.
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex'))) from pushq.device;
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 20, 1 from pushq.queue where id = pushq.queue_id('\(queue)');
                """)
            try await fixture.withEngine({ $0.tokenAge = .milliseconds(500) }) { _ in
                try await eventually("the first push") { await fixture.simulator.snapshot().arrived > 0 }
                let last = try await fixture.text(
                    "select encode(token, 'hex') from pushq.device order by id desc limit 1")
                let change = try await fixture.connection.setDevice(
                    DeviceToken(hex: last), inQueue: queue, isActive: false)
                #expect(change == .changed)
                try await eventually("the end of the send", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.result where delivered + suppressed = 60") == 1
                }
            }
            #expect(await fixture.simulator.snapshot().arrived == 59)
        }
    }
}
