import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Databases of one installation. They share nothing but Apple's servers.
@Suite(.timeLimit(.minutes(10))) struct `The number of a database` {
    private static let send = Statement(
        "send",
        """
        select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array['aa', 'bb']) as root
        """)
    private static let drawn = Statement(
        "drawn",
        "select id from pushq.device union select job_id from pushq.body union select id from pushq.message "
            + "union select root_id from pushq.body")

    private func makeQueue(_ connection: PostgresConnection) async throws {
        _ = try await connection.createTenant("acme")
        _ = try await connection.createApp("com.acme", of: "acme")
        _ = try await connection.createQueue(QueueFixture.name)
    }

    private func drawn(_ connection: PostgresConnection) async throws -> [Int64] {
        try await connection.execute(Self.drawn).map { $0.int8("id") }
    }

    /// The database number: the lower 10 of 60 bits.
    private func number(of id: Int64) -> Int64 { id % 1024 }

    @Test func `is in each identifier, so that no two databases draw the same`() async throws {
        var all: [Set<Int64>] = []
        for number in [0, 1, 2, 1023] as [Int32] {
            let ids = try await withDatabase { _, database in
                let connection = try await database.connect()
                try await Migrator(connection).setDatabaseNumber(number)
                try await makeQueue(connection)
                for _ in 0..<3 { _ = try await connection.execute(Self.send) }
                return Set(try await drawn(connection))
            }
            #expect(ids.count == 11, "two devices, and of each send a job, a message and its root")
            #expect(ids.allSatisfy { self.number(of: $0) == Int64(number) })
            #expect(ids.allSatisfy { $0 > 0 && APNsID("\(APNsID(root: $0, key: $0))")?.root == $0 })
            for others in all { #expect(others.isDisjoint(with: ids)) }
            all.append(ids)
        }
    }

    @Test func `stays the same in a copy, which skips identifiers`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await Migrator(connection).setDatabaseNumber(3)
            try await makeQueue(connection)
            _ = try await connection.execute(Self.send)
            let before = try await drawn(connection)
            try await connection.runScript(
                """
                update pushq.lineage set name = '1/2/3/4';
                select setval('pushq.known_lineage', 0), setval('pushq.known_start', 0)
                """)
            _ = try await connection.execute(Self.send)
            let after = try await drawn(connection).filter { !before.contains($0) }
            #expect(after.allSatisfy { number(of: $0) == 3 && $0 > before.max()! + 1 << 50 })
            // The last copy that still has free identifiers.
            try await connection.runScript(
                """
                select setval('pushq.id', (1::bigint << 60) - 1021);
                select setval('pushq.known_lineage', 0), setval('pushq.known_start', 0)
                """)
            let error = await #expect(throws: PostgresError.self) { _ = try await connection.execute(Self.send) }
            #expect("\(try #require(error))".contains("no identifiers are left"))
        }
    }

    @Test func `is not changed by a check, with or without a schema`() async throws {
        try await withEmptyDatabase { _, database in
            let migrator = Migrator(try await database.connect())
            try await migrator.checkDatabaseNumber(7)
            _ = try await migrator.run()
            try await migrator.checkDatabaseNumber(7)
            let number = Statement("number", "select pushq.database_number() as number")
            #expect(try await migrator.connection.execute(number).one().int4("number") == 0)
        }
    }

    @Test func `is kept once there are queues, and may be said again`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let migrator = Migrator(connection)
            try await migrator.setDatabaseNumber(7)
            try await migrator.setDatabaseNumber(5)
            try await makeQueue(connection)
            _ = try await connection.execute(Self.send)
            try await migrator.setDatabaseNumber(5)
            try await migrator.checkDatabaseNumber(5)
            for number in [0, 6] as [Int32] {
                let error = await #expect(throws: PostgresError.self) { try await migrator.setDatabaseNumber(number) }
                #expect("\(try #require(error))".contains("the number 5 of this database cannot be changed"))
                // A dry run says the same.
                let checked = await #expect(throws: PostgresError.self) {
                    try await migrator.checkDatabaseNumber(number)
                }
                #expect("\(try #require(checked))".contains("the number 5 of this database cannot be changed"))
            }
            for number in [-1, 1024] as [Int32] {
                let error = await #expect(throws: PostgresError.self) { try await migrator.setDatabaseNumber(number) }
                #expect("\(try #require(error))".contains("between 0 and 1023, not \(number)"))
            }
            _ = try await connection.execute(Self.send)
            let ids = try await drawn(connection)
            #expect(ids.count == 8 && ids.allSatisfy { self.number(of: $0) == 5 })
        }
    }
}
