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

@Suite(.timeLimit(.minutes(10))) struct `The usage of a tenant that calls at repeatable read` {
    private static let register = "select pushq.register_device('\(QueueFixture.name)', 'dd');"

    /// A queue with two devices, which a worker has counted.
    private func countedQueue(_ database: TestDatabase) async throws -> QueueFixture {
        let queue = try await QueueFixture(database, devices: 2)
        var change = TenantChange()
        change.quotas.devices = .limit(1000)
        #expect(try await queue.connection.setTenant("acme", to: change))
        try await queue.connection.countUsage()
        return queue
    }

    /// The call counts, as no worker had counted for a minute when its transaction began.
    @Test func `is that of a later count, not what the transaction sees`() async throws {
        try await withDatabase { _, database in
            let queue = try await countedQueue(database)
            try await queue.run(
                "update pushq.tenant_usage set counted_at = now() - interval '1 minute' where not by_producer")
            let producer = try await database.connect()
            try await producer.runScript("begin isolation level repeatable read; select count(*) from pushq.device")
            try await queue.run("insert into pushq.device (queue_id, token) values (\(queue.id), decode('ee', 'hex'))")
            try await queue.connection.countUsage()
            try await producer.runScript("\(Self.register) commit")
            #expect(try await queue.number("select devices from pushq.tenant_usage where by_producer") == 2)
            #expect(
                try await queue.number("select devices from pushq.last_usage((select id from pushq.tenant))") == 3)
        }
    }

    @Test func `is not counted because the transaction lasts`() async throws {
        try await withDatabase { _, database in
            let queue = try await countedQueue(database)
            try await database.connect().runScript(
                """
                begin isolation level repeatable read;
                update pushq.tenant_usage set counted_at = now() - interval '29.9 seconds' where not by_producer;
                select pg_sleep(0.2);
                \(Self.register)
                commit
                """)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.tenant_usage where by_producer and counted_at is not null") == 0)
        }
    }
}
