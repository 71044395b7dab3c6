import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The queue of all databases holds 8 GB. So the test fills a small share of it, and lets the check begin there.
@Suite(.timeLimit(.minutes(10))) struct `The queue of notifications` {
    @Test func `that a listener in another database keeps full is found, with a remedy that works`() async throws {
        let server = try await PrivatePostgres.start(reaper: try Reaper())
        let loop = EventLoop(name: "notifications")
        defer { loop.shutDown() }
        try await loop.run { _ in
            func connect(to database: String) async throws -> PostgresConnection {
                let address = try DatabaseAddress(
                    url: server.connectionString(database: database), environment: [:])
                return try await PostgresConnection.connect(to: address, as: "test", on: loop, within: .seconds(60))
            }
            let looking = try await connect(to: "postgres")
            let check = HealthCheck.notifications(from: 0.0001, heldFor: .zero)
            #expect(try await check.findings(in: looking) == [])
            try await looking.runScript("create database other")
            let listener = try await connect(to: "other")
            try await listener.runScript("listen anything")
            try await listener.runScript("begin; select 'a secret'")
            // Each notification takes a page of the queue, and there are a million pages.
            try await looking.runScript(
                "select pg_notify('news', n || repeat('x', 7000)) from generate_series(1, 300) n")

            let findings = try await check.findings(in: looking)
            let finding = try #require(findings.first)
            #expect(findings.count == 1 && finding.severity == .warning)
            #expect(finding.subject == "session \(listener.backendProcessID)")
            #expect(finding.evidence.contains("database other, \(PrivatePostgres.superuser), test"), "\(finding)")
            #expect(!"\(finding)".contains("secret"))
            let fuller = try await HealthCheck.notifications(from: 0.00001, heldFor: .zero).findings(in: looking)
            #expect(fuller.map(\.severity) == [.error], "from five times the share on")
            #expect(try await HealthCheck.notifications().findings(in: looking) == [])
            // No transaction is old enough, but the queue is as full.
            let unheld = try await HealthCheck.notifications(from: 0.0001, heldFor: .seconds(3600))
                .findings(in: looking)
            #expect(unheld.map(\.subject) == ["server"] && unheld.map(\.remedy.kind) == ["advice"])

            try await looking.runScript(finding.remedy.text)
            try await eventually("the queue is empty", within: .seconds(30)) {
                try await check.findings(in: looking).isEmpty
            }
            for connection in [looking, listener] { connection.close() }
        }
        try await server.stop(.immediate)
    }
}
