import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A lane of a queue` {
    /// The next permit is due after two seconds. By then the previous job's lease is no longer trusted: a lease of one
    /// second is trusted for two thirds of a second.
    @Test func `goes on behind a job that has ended, and whose last recipient was not to be sent to`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            // One job for both recipients, because there is no rate limit yet.
            try await fixture.connection.runScript(
                """
                begin;
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex')))
                from (select token from pushq.device order by id limit 2) d;
                update pushq.device
                set active = false, inactive_since = now()
                where id = (select id from pushq.device order by id offset 1 limit 1);
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 0.5, 1 from pushq.queue;
                commit
                """)
            try await fixture.withEngine({ $0.lease = .seconds(1) }) { _ in
                try await eventually("the end of the first send") {
                    try await fixture.number("select count(*) from pushq.result where suppressed = 1") == 1
                }
                try await fixture.connection.runScript(
                    """
                    select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array[encode(token, 'hex')])
                    from pushq.device order by id desc limit 1
                    """)
                try await eventually("the second send", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.result") == 2
                }
            }
            #expect(await fixture.simulator.snapshot().arrived == 2)
        }
    }
}
