package import LocalStack

/// The PostgreSQL of the tests: one for each test process, started by the first test that asks, gone when the process
/// ends.
package enum TestServer {
    /// Not synced to disk: tests stop processes, never machines, and what a process wrote the kernel keeps.
    private static let settings = ServerSettings(["fsync": "off", "full_page_writes": "off", "max_connections": "300"])

    private static let starting = Task { try await PrivatePostgres.start(settings, minder: Minder()) }

    /// Who is not asked for a password.
    package static let superuser = PrivatePostgres.superuser

    /// How long a busy machine may take to connect, or to make a database.
    static let patience = Duration.seconds(60)

    /// The server, once it answers.
    package static func shared() async throws -> PrivatePostgres {
        try await starting.value
    }
}
