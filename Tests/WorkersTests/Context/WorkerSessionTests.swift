import PostgresStore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(5)))
struct `The sessions of an engine` {
    private static let command = "pushq-admin migrate --worker-role \(TestServer.superuser)"

    @Test(.enabled(if: PgBouncer.executable != nil, "PgBouncer is not installed (apt-get install pgbouncer)"))
    func `behind a pooler, what they lack is said once, with the command that sets it`() async throws {
        try await EngineFixture.run { _, fixture in
            let pooler = try await PgBouncer(poolSize: 4)
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.withEngine(over: try pooler.address(of: fixture.database)) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            let lines = fixture.events.all.filter { $0.contains("plan_cache_mode = force_generic_plan") }
            #expect(lines.count == 1)
            #expect(lines.first?.hasSuffix(Self.command) == true)
            await pooler.end()
        }
    }

    @Test func `need nothing of their role`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.connection.runScript("alter database \(fixture.database.name) set jit = on")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            #expect(!fixture.events.contains("plan_cache_mode"))
        }
    }
}
