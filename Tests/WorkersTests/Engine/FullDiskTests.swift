import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A database without room` {
    /// Makes PostgreSQL answer as it does when it cannot extend a table.
    private static let fullDisk = """
        create function public.refuse() returns trigger language plpgsql as $$
        begin
          raise exception using errcode = '53100', message = 'could not extend file';
        end $$;
        create trigger full_disk before insert on pushq.result for each row execute function public.refuse();
        """

    @Test func `keeps what was sent: jobs stay leased until their end can be written, and nobody is sent to again`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 100)
            try await fixture.connection.runScript(Self.fullDisk)
            try await fixture.withEngine { settings in
                settings.lease = .seconds(3)
                settings.rescueGrace = .seconds(1)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the worker reports it") { fixture.events.contains("could not extend file") }
                // Long after the lease from its last flush would have expired.
                try await eventually("the lease has been renewed for some time", within: .seconds(30)) {
                    try await fixture.number(
                        "select count(*) from pushq.lease where epoch = 1 and deadline > (select max(created_at) from pushq.campaign) + interval '7 s'"
                    ) == 1
                }
                try await fixture.stopRefusing()
                try await fixture.waitForCampaigns()
            }
            #expect(try await fixture.progress()["delivered"] == 100)
            #expect(await fixture.simulator.snapshot().arrived == 100)
        }
    }

    @Test func `keeps its leases while it drains, until it gives up`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 100)
            try await fixture.connection.runScript(Self.fullDisk)
            try await fixture.withEngine { settings in
                settings.lease = .seconds(3)
                settings.rescueGrace = .seconds(1)
                settings.drain = .seconds(60)
            } _: { engine in
                try await fixture.startCampaign(queue)
                try await eventually("the worker reports it") { fixture.events.contains("could not extend file") }
                await engine.drain()
                try await eventually("its lease has been renewed for some time", within: .seconds(30)) {
                    try await fixture.number(
                        "select count(*) from pushq.lease where epoch = 1 and deadline > (select max(created_at) from pushq.campaign) + interval '8 s'"
                    ) == 1
                }
                try await fixture.stopRefusing()
                try await fixture.waitForCampaigns()
            }
            #expect(try await fixture.progress()["delivered"] == 100)
            #expect(await fixture.simulator.snapshot().arrived == 100)
        }
    }
}
