import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The unit for systemd` {
    /// The systemd unit of `deploy/`, with the executable that was built here.
    private func unit() throws -> String {
        let file = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "deploy/systemd/pushq-worker.service")
        let text = try String(contentsOf: file, encoding: .utf8)
        // systemd looks this name up, so it finds the program wherever README.md or the package installs it.
        #expect(text.contains("\nExecStart=pushq work "))
        return text.replacing("ExecStart=pushq", with: "ExecStart=\(Executable.folder)/pushq")
    }

    /// systemd-analyze refuses paths with spaces.
    private func path(of unit: String) throws -> String {
        let path = NSTemporaryDirectory() + "pushq-\(UInt32.random(in: 0 ... .max)).service"
        try unit.write(toFile: path, atomically: false, encoding: .utf8)
        return path
    }

    @Test func `is one that systemd can read, without a warning`() async throws {
        let path = try path(of: unit())
        defer { try? FileManager.default.removeItem(atPath: path) }
        let ended = try await Executable(path: "/usr/bin/systemd-analyze").run([
            "verify", "--recursive-errors=no", path,
        ])
        #expect(ended.code == 0)
        #expect(ended.errors.isEmpty && ended.output.isEmpty, "\(ended.errors) \(ended.output)")
    }

    /// systemd-analyze here accepts specifiers that an older systemd leaves out together with their variable.
    @Test func `finds the master key with specifiers that every supported systemd knows`() throws {
        let settings = try unit().split(separator: "\n").filter { !$0.hasPrefix("#") }.joined(separator: "\n")
        let specifiers = settings.matches(of: #/%./#).map { String($0.output) }
        #expect(Set(specifiers) == ["%t", "%n"], "%d is new in systemd 250; Ubuntu 22.04 has 249")
        // Where a system unit's credentials are (systemd.exec(5)).
        #expect(settings.contains("\nLoadCredential=master.key:/etc/pushq/master.key\n"))
        #expect(settings.contains("\nEnvironment=PUSHQ_MASTER_KEY_FILE=%t/credentials/%n/master.key\n"))
    }

    /// With the unit's own options, those of the file beside it, and each option that the comments suggest instead.
    @Test func `starts a worker with options that it takes, also those that it advises`() async throws {
        let folder = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "deploy/systemd")
        let unit = try String(contentsOf: folder.appending(path: "pushq-worker.service"), encoding: .utf8)
        let file = try String(contentsOf: folder.appending(path: "worker.env"), encoding: .utf8)
        let command = try #require(unit.firstMatch(of: /\nExecStart=pushq (.*)\n/)?.output.1)
        let own = try #require(unit.firstMatch(of: /\nEnvironment="PUSHQ_WORK_OPTIONS=(.*)"\n/)?.output.1)
        let given = try #require(file.firstMatch(of: /\nPUSHQ_WORK_OPTIONS=(.*)\n/)?.output.1)
        #expect(given.hasPrefix(own), "whoever edits the file sees all options")
        let advised = unit.matches(of: /\n# \S[^\n]*?(--[a-z-]+ [a-z0-9]+)/).map { $0.output.1 }
        #expect(advised.contains("--log-format json"))
        for options in [own, given] + advised {
            let words = command.replacing("$PUSHQ_WORK_OPTIONS", with: options).split(separator: " ").map(String.init)
            let ended = try await Executable.pushq.run(words + ["--help"])
            #expect(ended.code == 0, "\(words): \(ended.errors)")
        }
        let wrong = try await Executable.pushq.run(["work", "--metrics", "127.0.0.1:0", "--no-such-option"])
        #expect(unit.contains("\nRestartPreventExitStatus=\(wrong.code.map(String.init) ?? "")\n"))
    }

    @Test(arguments: ["pushq-router.service", "pushq-router.timer"])
    func `is one that systemd can read for a router, too`(unit: String) async throws {
        let folder = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "deploy/router")
        let ended = try await Executable(path: "/usr/bin/systemd-analyze").run([
            "verify", "--recursive-errors=no", folder.appending(path: unit).path,
        ])
        #expect(ended.code == 0)
        #expect(ended.errors.isEmpty && ended.output.isEmpty, "\(ended.errors) \(ended.output)")
    }

    @Test func `leaves a worker so few rights that its exposure is under 2`() async throws {
        let path = try path(of: unit())
        defer { try? FileManager.default.removeItem(atPath: path) }
        let ended = try await Executable(path: "/usr/bin/systemd-analyze").run(
            ["security", "--offline=true", "--threshold=20", path])
        #expect(ended.code == 0, "\(ended.errors)")
        let exposure = ended.output.firstMatch(of: /Overall exposure level for .*: (\d+\.\d)/)
        #expect(try #require(exposure.flatMap { Double($0.output.1) }) < 2)
    }
}

extension `Real processes` {
    @Suite struct `A worker under a service manager` {
        @Test func `says that it is ready when it has polled, lives, and says when it stops`() async throws {
            try await withRig { rig in
                let socket = try NotifySocket()
                let worker = try rig.startWorker(
                    environment: ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "600000"], ["--engines", "2"])
                try await eventually("it is ready, and lives", within: .seconds(60)) {
                    socket.messages.contains("READY=1") && socket.messages.count { $0 == "WATCHDOG=1" } > 2
                }
                try await eventually("both engines show themselves") {
                    try await rig.number("select count(*) from pushq.worker") == 2
                }
                #expect(!socket.messages.contains("STOPPING=1"))
                #expect(await worker.drain() == .code(0))
                #expect(socket.messages.count { $0 == "STOPPING=1" } == 1)
                let (ready, stopping) = (
                    socket.messages.firstIndex(of: "READY=1"), socket.messages.firstIndex(of: "STOPPING=1")
                )
                #expect(try #require(ready) < #require(stopping))
            }
        }

        @Test func `lives and is not ready while there is no PostgreSQL, says why, and ends when it is told to`()
            async throws
        {
            try await withRig { rig in
                let socket = try NotifySocket()
                let worker = try rig.startWorker(
                    database: "postgres://127.0.0.1:1/push", environment: ["NOTIFY_SOCKET": socket.name],
                    ["--metrics", "127.0.0.1:0"])
                let place = try await worker.metricsAddress()
                try await worker.says("store_unavailable")
                #expect(try await PlainClient.get("/healthz", from: place).status == 200)
                let answer = try await PlainClient.get("/readyz", from: place)
                #expect(answer.status == 503 && answer.body.contains("push at 127.0.0.1:1"), "\(answer.body)")
                try await eventually("systemd is told why") {
                    socket.messages.contains { $0.hasPrefix("STATUS=") && $0.contains("cannot be used") }
                }
                #expect(worker.process.exit == nil)
                #expect(await worker.drain() == .code(0))
            }
        }

        /// Two sessions are enough to send, but not to fan out campaigns.
        @Test func `is not ready with two sessions, says why, and is when it may have more`() async throws {
            try await withRig { rig in
                let role = "two_connections"
                try await rig.run("create role \(role) login connection limit 2; grant pushq_worker to \(role)")
                let url = rig.postgres.connectionString(database: rig.database) + " user=\(role)"
                let worker = try rig.startWorker(database: url, ["--metrics", "127.0.0.1:0", "--drain", "1s"])
                let place = try await worker.metricsAddress()
                try await worker.says("too many connections for role")
                try await eventually("it is not ready") {
                    let answer = try await PlainClient.get("/readyz", from: place)
                    return answer.status == 503 && answer.body.contains("no session for fan-out or upkeep")
                }
                try await rig.run("alter role \(role) connection limit -1")
                try await eventually("it is ready", within: .seconds(60)) {
                    try await PlainClient.get("/readyz", from: place).status == 200
                }
                #expect(await worker.drain() == .code(0))
                try await rig.run("drop role \(role)")
            }
        }
    }
}
