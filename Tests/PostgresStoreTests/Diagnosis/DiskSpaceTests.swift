import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `A check of the server's disk` {
    private static let gigabyte: Int64 = 1_000_000_000

    /// Returns the findings for a data directory on a disk of `all` GB of which `left` GB are free. WAL may take 4 GB.
    private func findings(
        _ left: Int64, of all: Int64, in connection: PostgresConnection
    ) async throws -> [HealthFinding] {
        try await HealthCheck.disk(space: { _ in
            FileSystemSpace(device: 1, availableBytes: left * Self.gigabyte, totalBytes: all * Self.gigabyte)
        }).findings(in: connection)
    }

    @Test(arguments: [
        (30, 200, nil), (29, 200, HealthFinding.Severity.warning), (10, 200, .warning), (9, 200, .error),
        // A small share of a large disk is still much.
        (100, 4000, nil), (99, 4000, .warning), (20, 4000, .warning), (19, 4000, .error),
        // WAL needs its space at once, whatever share of the disk that is.
        (4, 20, .error), (5, 20, nil),
    ])
    func `is an error or a warning by what is left`(left: Int, all: Int, severity: HealthFinding.Severity?) async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let found = try await findings(Int64(left), of: Int64(all), in: connection)
            #expect(found.map(\.severity) == [severity].compactMap(\.self))
            let size = left < 10 ? "\(left)000 MB" : "\(left) GB"
            #expect(found.allSatisfy { $0.evidence.hasPrefix("has \(size) left of ") }, "\(found)")
        }
    }

    @Test func `says that it sees nothing of a server that is elsewhere, and what to watch`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let folder = try TemporaryFolder()
            let found = try await HealthCheck.disk(processes: folder.path("")).findings(in: connection)
            #expect(found.map(\.severity) == [.note])
            #expect(
                found.first?.evidence.contains(#/cannot be seen from here: .* takes \d+ [kM]B$/#) == true, "\(found)")
            #expect(found.first?.remedy.text.contains("node_filesystem_avail_bytes") == true)
            // Another process with the same ID is not a server.
            try FileManager.default.createDirectory(
                at: folder.url("\(try await backend(of: connection))"), withIntermediateDirectories: false)
            for title in ["nginx: worker process", "postgres: other elsewhere [local] idle"] {
                try folder.write(title, to: "\(try await backend(of: connection))/cmdline")
                #expect(
                    try await HealthCheck.disk(processes: folder.path("")).findings(in: connection).map(\.severity) == [
                        .note
                    ])
            }
        }
    }

    private func backend(of connection: PostgresConnection) async throws -> Int32 {
        try await connection.execute(Statement("backend", "select pg_backend_pid() as pid")).one().int4("pid")
    }

    @Test func `says what keeps it from looking, with a remedy that works`() async throws {
        try await withDatabase { _, database in
            let worker = try await database.connect(login: TestServer.workerLogin)
            let blind = try await HealthCheck.disk().findings(in: worker)
            #expect(blind.map(\.severity) == [.note])
            #expect(blind.map(\.remedy) == [.grant("grant pg_read_all_settings to \(TestServer.workerLogin);")])
            let closed = try await HealthCheck.disk(space: { _ in nil }).findings(in: try await database.connect())
            #expect(closed.map(\.severity) == [.note])
            #expect(closed.first?.evidence.contains("this user may not read /") == true, "\(closed)")
        }
    }

    @Test func `finds one disk once, and each other disk by its own`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let space = { @Sendable (path: String) in
                // WAL is on a disk of its own, and the tablespace on that of the data.
                FileSystemSpace(
                    device: path.hasSuffix("/pg_wal") ? 2 : 1, availableBytes: Self.gigabyte / 2,
                    totalBytes: Self.gigabyte)
            }
            let found = try await HealthCheck.disk(space: space).findings(in: connection)
            #expect(
                found.map { $0.subject.hasSuffix("/pg_wal") } == [true], "half of the data's disk is left: \(found)")
            #expect(found.first?.evidence.contains("WAL may take ") == true)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "only root mounts a disk"))
    func `finds a disk that fills up, and that there is room again`() async throws {
        let reaper = try Reaper()
        let folder = "/tmp/pushq-disk-\(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
        reaper.register(folder: folder)
        try await ProcessCommand("/bin/mount", ["-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", folder]).run()
        let settings = ServerSettings(["max_wal_size": "32MB", "min_wal_size": "32MB", "shared_buffers": "32MB"])
        let server = try await PrivatePostgres.start(settings, reaper: reaper, in: folder)
        let address = try DatabaseAddress(url: server.connectionString(), environment: [:])
        let loop = EventLoop(name: "disk")
        try await loop.run { _ in
            let connection = try await PostgresConnection.connect(
                to: address, as: "test", on: loop, within: .seconds(60))
            #expect(try await HealthCheck.disk().findings(in: connection) == [])
            for (megabytes, severity) in [(48, HealthFinding.Severity.warning), (16, .error)] {
                let left = try #require(FileSystemSpace(of: folder)).availableBytes
                try await ProcessCommand(
                    "/usr/bin/fallocate", ["-l", "\(left - Int64(megabytes) << 20)", "\(folder)/filler-\(megabytes)"]
                ).run()
                let found = try await HealthCheck.disk().findings(in: connection)
                #expect(found.map(\.severity) == [severity], "\(found)")
                #expect(found.first?.subject.hasPrefix("disk of \(folder)/") == true)
                #expect(found.first?.evidence.contains("WAL may take 33 MB") == (megabytes < 32))
            }
            for megabytes in [48, 16] { try FileManager.default.removeItem(atPath: "\(folder)/filler-\(megabytes)") }
            #expect(try await HealthCheck.disk().findings(in: connection) == [])
            connection.close()
        }
        loop.shutDown()
        try await server.stop(.immediate)
        try await ProcessCommand("/bin/umount", [folder]).run()
    }
}
