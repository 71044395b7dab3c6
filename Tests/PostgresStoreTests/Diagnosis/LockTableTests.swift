import LocalStack
import Testing

@testable import PostgresStore

/// A server has room for the locks of hundreds of days of history. So the test makes the table of locks small.
@Suite(.timeLimit(.minutes(10))) struct `The table of locks` {
    @Test func `that is too small for the days of history is found before statements fail, with a remedy that lasts`()
        async throws
    {
        let server = try await PrivatePostgres.start(
            ServerSettings(["max_connections": "20"]), reaper: try Reaper())
        try await withConnection(to: server) { connection in
            _ = try await Migrator(connection).run()
            // One day in each statement, because each takes locks of its own.
            for _ in 1...60 { try await connection.runScript("select pushq.make_partition(null, 14)") }
            #expect(try await HealthCheck.lockTable.findings(in: connection) == [], "2 * 64 * 42 places")
            try await connection.runScript("insert into pushq.tenant (name, history_days) values ('acme', 365)")
            try await connection.runScript("alter system set max_locks_per_transaction = 10")
        }
        try await server.stop()
        try await server.start()
        try await withConnection(to: server) { connection in
            let findings = try await HealthCheck.lockTable.findings(in: connection)
            let finding = try #require(findings.first)
            #expect(findings.count == 1 && finding.severity == .warning && finding.subject == "server")
            // Yesterday, today and 14 days ahead; 2 * 10 * 42 places for 7 * 8 of each day.
            #expect(
                finding.evidence.hasPrefix(
                    "has 16 days of history, and room for the locks of 15 (max_locks_per_transaction = 10)"),
                "\(finding.evidence)")
            // 7 * 8 * 371 places for a year of history, on 42 processes with two each.
            #expect(
                finding.remedy.text.hasPrefix("alter system set max_locks_per_transaction = 256; -- on standbys first"),
                "\(finding.remedy.text)")
            try await connection.carryOut(findings)
        }
        try await server.stop()
        try await server.start()
        try await withConnection(to: server) { connection in
            let findings = try await HealthCheck.lockTable.findings(in: connection)
            #expect(findings == [])
        }
        try await server.stop(.immediate)
    }
}
