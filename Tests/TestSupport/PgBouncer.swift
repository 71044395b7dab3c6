import Foundation
import Glibc
package import LocalStack
package import PostgresStore

/// A private PgBouncer in front of the a private server, in transaction mode: two server connections for each database,
/// or as many as asked for.
package struct PgBouncer: Sendable {
    /// Nil where it is not installed.
    package static let executable = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    private static let port = 6432

    private let folder: String
    private let minder: Minder

    /// - Parameters:
    ///   - postgres: the server behind it; that of the tests if none is given.
    ///   - login: whose sessions everybody shares; the superuser's if none is given.
    package init(
        to postgres: PrivatePostgres? = nil, login: String = TestServer.superuser, poolSize: Int = 2
    ) async throws {
        let postgres = if let postgres { postgres } else { try await TestServer.shared() }
        folder = postgres.socketFolder
        minder = try Minder()
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
        // What one that was killed would leave behind looks like a socket to connect to.
        try? FileManager.default.removeItem(atPath: "\(folder)/.s.PGSQL.\(Self.port)")
        var command = postgres.command(Self.executable ?? "", [file])
        command.output = .discarded
        command.errors = .discarded
        let pooler = try minder.start(command, endingWith: SIGTERM)
        try await wait(for: "PgBouncer's socket") {
            guard pooler.exit == nil else { throw NeverHappened(description: "PgBouncer \(pooler.exit!)") }
            // The file is there a moment before anybody listens at it.
            return SocketStream(AF_UNIX).connect(to: "\(folder)/.s.PGSQL.\(Self.port)")
        }
    }

    /// How to reach one of the server's databases through it.
    package func address(of database: TestDatabase) throws -> DatabaseAddress {
        try DatabaseAddress(url: connectionString(database: database.name), environment: [:])
    }

    /// The same, for `--database-url`.
    package func connectionString(database: String) -> String {
        "host=\(folder) port=\(Self.port) user=\(TestServer.superuser) dbname=\(database)"
    }

    package func end() async { await minder.end() }
}
