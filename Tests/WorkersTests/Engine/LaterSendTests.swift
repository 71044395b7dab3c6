import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker with sends to users for later` {
    @Test func `sends each to the devices that its user has by then, and rests when there are none`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            let register = { (token: Int, user: String) in
                "select pushq.register_device('\(queue)', repeat('\(token)', 16), '\(user)');"
            }
            let send = { (user: String) in
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', user_key => '\(user)', run_at => now() + interval '1 hour');
                """
            }
            try await fixture.connection.runScript(
                register(1001, "ann") + register(1002, "bob") + register(1003, "cid"))
            try await fixture.withEngine { _ in
                try await fixture.connection.runScript(send("ann") + send("bob") + send("cid") + send("nobody"))
                // One user gets a new phone, one phone changes hands, and one user logs out.
                try await fixture.connection.runScript(
                    register(2001, "ann") + register(1002, "ann")
                        + "select pushq.unregister_device('\(queue)', repeat('1003', 16))")
                try await fixture.connection.runScript("update pushq.job set run_at = now(); select pushq.wake()")
                try await eventually("the sends to end", within: .seconds(60)) {
                    try await fixture.number(
                        "select (select count(*) from pushq.result) + (select count(*) from pushq.empty_send)") == 4
                }
            }
            #expect(try await fixture.number("select sum(delivered) from pushq.result") == 3)
            #expect(try await fixture.number("select count(*) from pushq.empty_send") == 3)
            #expect(await fixture.simulator.snapshot().arrived == 3)
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
        }
    }
}
