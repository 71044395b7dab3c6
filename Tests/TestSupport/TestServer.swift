package import LocalStack
import Transport

/// The PostgreSQL server of the tests. Each test process has one. The first test that needs it starts it, and it ends
/// with the process.
package enum TestServer {
    /// Nothing is synced to disk: tests stop processes, never machines, and the kernel keeps what a process wrote.
    private static let settings = ServerSettings(["fsync": "off", "full_page_writes": "off", "max_connections": "300"])

    private static let starting = Task {
        try await PrivatePostgres.start(settings, reaper: Reaper(), in: memoryFolder)
    }

    /// The folder in which Linux keeps files in memory, if it has room for a write-ahead log of 4 GB too; nil
    /// otherwise. Each test has a copy of a database of 800 files, and on a disk most of the server's time went into
    /// creating and deleting them.
    private static var memoryFolder: String? {
        let (folder, enough) = ("/dev/shm", Int64(8) << 30)
        guard let space = FileSystemSpace(of: folder), space.availableBytes >= enough else { return nil }
        return folder
    }

    /// The login that needs no password.
    package static let superuser = PrivatePostgres.superuser

    /// The time that a busy machine may take to connect, to create a database, or for a statement.
    package static let patience = Duration.seconds(60)

    /// Returns the server as soon as it answers.
    package static func shared() async throws -> PrivatePostgres {
        try await starting.value
    }
}
