import Foundation
import Glibc
import Testing

@testable import LocalStack

@Suite(.timeLimit(.minutes(10)))
struct `A private PostgreSQL` {
    @Test func `answers on a socket, never on TCP, with what is stored on disk`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        let shown = try await postgres.query(
            "select current_setting('listen_addresses'), current_setting('fsync'), current_setting('synchronous_commit')"
        )
        #expect(shown == "|on|on")
        #expect(try await postgres.query("select inet_server_addr() is null") == "t")
        try await postgres.createDatabase("another")
        #expect(try await postgres.query("select current_database()", in: "another") == "another")
        await reaper.end()
    }

    @Test func `is of the programs that are asked for, or says what is wrong with them`() async throws {
        let usual = try await ServerBinaries.find(asked: nil)
        #expect(try await ServerBinaries.find(asked: usual.folder) == usual)

        let folder = FileManager.default.temporaryDirectory.appending(path: "pushq-old-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let missing = await #expect(throws: LocalStackError.self) { try await ServerBinaries.find(asked: folder) }
        #expect(
            missing?.description.contains("PUSHQ_POSTGRES is \(folder), but there is no usable PostgreSQL server")
                == true
        )

        // A shell writes the files. A file that this process has open for writing cannot be executed while a child of
        // another test has inherited its descriptor (ETXTBSY).
        let write = """
            for name in postgres initdb createdb; do
              printf '#!/bin/sh\\necho "postgres (PostgreSQL) 14.9 (Debian)"\\n' >"$0/$name" && chmod 755 "$0/$name"
            done
            """
        _ = try await ProcessCommand("/bin/sh", ["-c", write, folder]).run()
        let old = await #expect(throws: LocalStackError.self) { try await ServerBinaries.find(asked: folder) }
        #expect(old?.description.contains("its PostgreSQL is 14, and 15 is needed") == true)
    }

    @Test func `is gone, with its folder, when its reaper ends`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        let processID = try #require(postgres.processID)
        await reaper.end()
        #expect(!ProcessTimes.isRunning(processID))
        #expect(!FileManager.default.fileExists(atPath: postgres.socketFolder))
    }

    @Test(arguments: [PrivatePostgres.StopMode.fast, .immediate])
    func `keeps what was committed when it is stopped and started`(mode: PrivatePostgres.StopMode) async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        _ = try await postgres.query("create table kept as select 42 as answer")
        let before = postgres.processID
        try await postgres.stop(mode)
        #expect(postgres.processID == nil)
        try await postgres.start()
        #expect(postgres.processID != before)
        #expect(try await postgres.query("select answer from kept") == "42")
        await reaper.end()
    }

    @Test func `is started again after its main process was killed`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        kill(try #require(postgres.processID), SIGKILL)
        try await postgres.stop()
        try await postgres.start()
        #expect(try await postgres.query("select 1") == "1")
        await reaper.end()
    }

    @Test func `counts the CPU time of its backends, also of those that have ended`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        let before = postgres.backendCPU()
        _ = try await postgres.query("select count(*) from generate_series(1, 2000000)")
        #expect(postgres.backendCPU() - before >= .milliseconds(50))
        await reaper.end()
    }

    @Test func `says in one line why it did not start`() async throws {
        let reaper = try Reaper()
        let error = await #expect(throws: LocalStackError.self) {
            try await PrivatePostgres.start(ServerSettings(["shared_buffers": "nonsense"]), reaper: reaper)
        }
        #expect(error?.description.contains("did not start") == true)
        #expect(error?.description.contains("shared_buffers") == true)
        #expect(error?.description.contains("\n") == false)
        await reaper.end()
    }

    // MARK: The end of the program. The body of an exit test runs as a program of its own.

    @Test(arguments: [SIGKILL, SIGINT, SIGSEGV])
    func `does not outlive a program that a signal ends`(signal: Int32) async throws {
        let result = await #expect(
            processExitsWith: .signal(signal), observing: [\.standardOutputContent]
        ) { [signal = signal as Int32] in
            let postgres = try await PrivatePostgres.start(reaper: try Reaper())
            print("server \(postgres.processID!) \(postgres.socketFolder)")
            fflush(nil)
            _ = Glibc.signal(signal, SIG_DFL)
            kill(getpid(), signal)
            pause()
        }
        try await expectGone(try #require(result).standardOutputContent)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can become another user"))
    func `runs for a normal user as that user, from a folder that is closed to it`() async throws {
        let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
            var folder = Array("/root/a folder with blanks XXXXXX".utf8CString)
            #expect(unsafe mkdtemp(&folder) != nil && chdir(folder) == 0)
            let nobody = unsafe getpwnam("nobody")!.pointee
            #expect(unsafe setgid(nobody.pw_gid) == 0 && setuid(nobody.pw_uid) == 0)
            let postgres = try await PrivatePostgres.start(reaper: try Reaper())
            var status = stat()
            #expect(unsafe stat("\(postgres.socketFolder)/data", &status) == 0)
            #expect(unsafe status.st_uid == nobody.pw_uid && status.st_mode & 0o777 == 0o700)
            #expect(try await postgres.query("select 1") == "1")
            print("server \(postgres.processID!) \(postgres.socketFolder)")
        }
        try await expectGone(try #require(result).standardOutputContent)
    }

    private func expectGone(_ output: [UInt8]) async throws {
        let text = String(decoding: output, as: UTF8.self)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("server ") }, "printed: \(text)")
        let words = line.split(separator: " ")
        let (processID, folder) = (try #require(Int32(words[1])), String(words[2]))
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline, FileManager.default.fileExists(atPath: folder) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(!FileManager.default.fileExists(atPath: folder))
        #expect(!ProcessTimes.isRunning(processID))
    }
}

extension PrivatePostgres {
    /// Runs a query with `psql`, as a person would, and returns one row.
    func query(_ sql: String, in database: String = "postgres") async throws -> String {
        let psql = try #require(
            ["/usr/bin/psql", "/usr/local/bin/psql"].first { FileManager.default.isExecutableFile(atPath: $0) })
        let arguments = ["-X", "-A", "-t", "-d", connectionString(database: database), "-c", sql]
        return try await ProcessCommand(psql, arguments).run().trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
