import Foundation
import Glibc
package import LocalStack
package import PostgresStore

/// A private PgBouncer in transaction mode in front of a private server. It has two server connections for each
/// database, or as many as requested.
package struct PgBouncer: Sendable {
    /// Nil if PgBouncer is not installed.
    package static let executable = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    private static let port = 6432

    private let folder: String
    private let reaper: Reaper

    /// - Parameters:
    ///   - postgres: the server behind PgBouncer; nil: the tests' server.
    ///   - login: the login of the sessions that all clients share; by default the superuser.
    package init(
        to postgres: PrivatePostgres? = nil, login: String = TestServer.superuser, poolSize: Int = 2
    ) async throws {
        let postgres = if let postgres { postgres } else { try await TestServer.shared() }
        folder = postgres.socketFolder
        reaper = try Reaper()
        let settings = """
            [databases]
            * = host=\(folder) port=5432 user=\(login)
            [pgbouncer]
            listen_addr =
            listen_port = \(Self.port)
            unix_socket_dir = \(folder)
            auth_type = any
            pool_mode = transaction
            default_pool_size = \(poolSize)
            max_client_conn = 100
            """
        let file = "\(folder)/pgbouncer.ini"
        try settings.write(toFile: file, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        // The socket file of a killed PgBouncer would look like one that accepts connections.
        try? FileManager.default.removeItem(atPath: "\(folder)/.s.PGSQL.\(Self.port)")
        var command = postgres.command(Self.executable ?? "", [file])
        command.output = .discarded
        command.errors = .discarded
        let pooler = try reaper.start(command, endingWith: SIGTERM)
        try await wait(for: "PgBouncer's socket") {
            guard pooler.exit == nil else { throw NeverHappened(description: "PgBouncer \(pooler.exit!)") }
            // The file appears a moment before PgBouncer listens.
            return SocketStream(AF_UNIX).connect(to: "\(folder)/.s.PGSQL.\(Self.port)")
        }
    }

    /// The address of one of the server's databases through PgBouncer.
    package func address(of database: TestDatabase) throws -> DatabaseAddress {
        try DatabaseAddress(url: connectionString(database: database.name), environment: [:])
    }

    /// The same address as ``address(of:)``, as a URL for `--database-url`.
    package func connectionString(database: String) -> String {
        "host=\(folder) port=\(Self.port) user=\(TestServer.superuser) dbname=\(database)"
    }

    package func end() async { await reaper.end() }
}
