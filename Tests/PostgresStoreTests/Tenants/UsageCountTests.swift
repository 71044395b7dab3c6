import TestSupport
import Testing

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `What a tenant has added since its usage was counted completely` {
    /// Statements of an operator or of a server's restart that change which identifiers the database draws.
    @Test(arguments: [
        (atFirst: "select 1", afterwards: "select 1"),
        (atFirst: "select pushq.set_database_number(1)", afterwards: "select 1"),
        (atFirst: "select pushq.set_database_number(1023)", afterwards: "select pushq.skip_ids()"),
        (atFirst: "select 1", afterwards: "select pushq.skip_ids()"),
    ]) func `is counted, whatever the database's number, and after a failover`(
        _ statements: (atFirst: String, afterwards: String)
    ) async throws {
        try await withDatabase { _, database in
            try await database.connect().runScript(statements.atFirst)
            let queue = try await QueueFixture(database, devices: 5)
            var change = TenantChange()
            (change.quotas.devices, change.quotas.dayBytes) = (.limit(1000), .limit(100_000))
            #expect(try await queue.connection.setTenant("acme", to: change))
            try await queue.connection.countUsage()
            #expect(try await queue.number("select max(devices) from pushq.tenant_usage") == 5)
            try await queue.run(statements.afterwards)
            for round in 1...3 {
                // Each payload has 21 bytes.
                try await queue.run(
                    """
                    select pushq.register_device('\(QueueFixture.name)', 'ff0\(round)');
                    select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array['ee0\(round)'])
                    """)
                try await queue.connection.countUsage()
                #expect(try await queue.number("select max(devices) from pushq.tenant_usage") == 5 + 2 * round)
                #expect(try await queue.number("select max(bytes) from pushq.tenant_usage") == 21 * round)
            }
        }
    }
}
