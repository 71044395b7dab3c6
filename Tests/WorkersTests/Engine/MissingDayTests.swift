import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A fleet that was down until no day of history was left` {
    @Test func `makes the days again, and sends to nobody twice because a result had no place`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 100)
            // Upkeep fails at first, because another session locks the table whose day is missing.
            let blocker = try await fixture.database.connect()
            try await fixture.connection.runScript(
                """
                do $$
                declare name text;
                begin
                  for name in select inhrelid::regclass::text from pg_inherits where inhparent = 'pushq.result'::regclass loop
                    execute 'drop table ' || name;
                  end loop;
                end $$;
                """)
            try await blocker.runScript("begin; lock table pushq.result in share row exclusive mode")
            try await fixture.withEngine { settings in
                settings.lease = .seconds(1)
                settings.rescueGrace = .milliseconds(100)
                settings.dutyRetry = .milliseconds(500)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("upkeep fails", within: .seconds(30)) {
                    fixture.events.contains("the duty upkeep failed")
                }
                try await eventually("all were sent to") { await fixture.simulator.snapshot().arrived == 100 }
                try await blocker.runScript("rollback")
                try await eventually("somebody says what is missing") {
                    fixture.events.contains("no partition of relation \"result\"")
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 100)
            #expect(await fixture.simulator.snapshot().arrived == 100)
        }
    }
}
