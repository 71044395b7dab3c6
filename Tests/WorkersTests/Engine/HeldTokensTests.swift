import APNs
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

    /// The push has no answer for longer than tokens are used. Other connections have room when it is given up.
    @Test func `does not go again to a device that was deactivated while its answer was awaited`() async throws {
        try await EngineFixture.run {
            $0.streamLimit = 2
        } _: { _, fixture in
            let queue = try await fixture.makeQueue()
            let (silent, healthy) = (String(repeating: "51", count: 32), String(repeating: "aa", count: 32))
            await fixture.simulator.use(Rules(outcomes: [OutcomeRule(.silence, tokenPrefix: silent)]))
            let send = { (token: String) in
                _ = try await fixture.number(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array['\#(token)'])"#)
            }
            try await fixture.withEngine {
                $0.tokenAge = .milliseconds(500)
                $0.connections.responseTime = .seconds(3)
                $0.drain = .milliseconds(100)
            } _: { _ in
                for _ in 0..<3 { try await send(silent) }
                try await eventually("they to arrive") { await fixture.simulator.snapshot().arrived == 3 }
                let change = try await fixture.connection.setDevice(
                    DeviceToken(hex: silent), inQueue: queue, isActive: false)
                #expect(change == .changed)
                var others = 0
                try await eventually("the silent ones to end", within: .seconds(60)) {
                    try await send(healthy)
                    others += 1
                    return try await fixture.number("select coalesce(sum(unknown), 0) from pushq.result") == 3
                }
                try await eventually("the others to arrive") {
                    await fixture.simulator.snapshot().accepted == others
                }
                #expect(await fixture.simulator.snapshot().arrived == 3 + others)
            }
        }
    }
}
