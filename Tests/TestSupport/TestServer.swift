package import LocalStack
import Transport

/// The PostgreSQL of the tests: one for each test process, started by the first test that asks, gone when the process
/// ends.
package enum TestServer {
    /// Not synced to disk: tests stop processes, never machines, and what a process wrote the kernel keeps.
    private static let settings = ServerSettings(["fsync": "off", "full_page_writes": "off", "max_connections": "300"])

    private static let starting = Task {
        try await PrivatePostgres.start(settings, minder: Minder(), in: memoryFolder)
    }

    /// Where Linux keeps files in memory, if there is room, also for a write-ahead log of 4 GB; nil elsewhere. Each
    /// test has a copy of a database of 800 files, and on a disk most of the server's time went into making and
    /// deleting them.
    private static var memoryFolder: String? {
        let (folder, enough) = ("/dev/shm", Int64(8) << 30)
        guard let space = FileSystemSpace(of: folder), space.availableBytes >= enough else { return nil }
        return folder
    }

    /// Who is not asked for a password.
    package static let superuser = PrivatePostgres.superuser

    /// How long a busy machine may take to connect, or to make a database.
    static let patience = Duration.seconds(60)

    /// The server, once it answers.
    package static func shared() async throws -> PrivatePostgres {
        try await starting.value
    }
}
