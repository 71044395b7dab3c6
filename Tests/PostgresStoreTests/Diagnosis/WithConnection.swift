import LocalStack
import Transport

@testable import PostgresStore

/// Runs `body` with a connection to a server of the test's own, which is closed afterwards.
/// - Parameter options: options of the connection, as in PGOPTIONS.
func withConnection(
    to server: PrivatePostgres, as login: String = PrivatePostgres.superuser, options: String? = nil,
    _ body: @Sendable (PostgresConnection) async throws -> Void
) async throws {
    let address = try DatabaseAddress(
        url: server.connectionString(user: login) + (options.map { " options='\($0)'" } ?? ""), environment: [:])
    let loop = EventLoop(name: "diagnosis")
    defer { loop.shutDown() }
    try await loop.run { _ in
        let connection = try await PostgresConnection.connect(to: address, as: "test", on: loop, within: .seconds(60))
        defer { connection.close() }
        try await body(connection)
    }
}

extension PostgresConnection {
    /// Carries out what findings say, line by line, as it is printed for psql.
    func carryOut(_ findings: [HealthFinding]) async throws {
        for finding in findings where finding.remedy.kind == "sql" {
            for step in finding.remedy.steps { try await runScript(step) }
        }
    }
}
