import LocalStack
import Transport

@testable import PostgresStore

/// Runs `body` with a connection to a server of the test's own, which is closed afterwards.
func withConnection(
    to server: PrivatePostgres, as login: String = PrivatePostgres.superuser,
    _ body: @Sendable (PostgresConnection) async throws -> Void
) async throws {
    let address = try DatabaseAddress(url: server.connectionString(user: login), environment: [:])
    let loop = EventLoop(name: "diagnosis")
    defer { loop.shutDown() }
    try await loop.run { _ in
        let connection = try await PostgresConnection.connect(to: address, as: "test", on: loop, within: .seconds(60))
        defer { connection.close() }
        try await body(connection)
    }
}
