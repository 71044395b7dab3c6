import Foundation
import LocalStack
import TestSupport
import Testing
import Transport

/// Tests `pushq dev` as a process, as a developer sees it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `Development on one machine` {
    private struct Running: Sendable {
        let folder: TemporaryFolder
        let process: ChildProcess
        var temporary: String { folder.path("t") }
    }

    /// Starts it with a temporary folder of its own, and waits until it prints what to try.
    private func start(_ arguments: [String]) async throws -> Running {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.path("t"), withIntermediateDirectories: false)
        let process = try Executable.pushq.start(
            ["dev", "--port", "0"] + arguments, environment: ["TMPDIR": folder.path("t")],
            output: folder.path("output"), errors: folder.path("errors"))
        try await eventually("it says what to try", within: .seconds(120)) {
            folder.read("output").contains(arguments.isEmpty ? "Ctrl-C ends all of it." : "}\n") || process.exit != nil
        }
        #expect(process.exit == nil, "\(folder.read("errors"))")
        return Running(folder: folder, process: process)
    }

    /// A person pastes the lines into a shell. The live screen needs a terminal, so the test runs it with `--once`.
    @Test func `prints commands that work when they are pasted`() async throws {
        let dev = try await start([])
        let text = dev.folder.read("output")
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("  ") }.map { $0.dropFirst(2) }
        #expect(lines.count { $0.hasPrefix("export ") } == 3)
        let commands = lines.filter { !$0.hasPrefix("#") && !$0.hasPrefix("export ") }
        #expect(commands.count == 7)
        // After these, one that needs the master key.
        let script =
            lines.map { $0 == "pushq-admin top" ? "pushq-admin top --once" : String($0) }
            + ["pushq-admin credential check acme simulator"]
        let ended = try await Executable(path: "/bin/bash").run(
            ["-euo", "pipefail", "-c", script.joined(separator: "\n")], within: .seconds(120))
        #expect(ended.code == 0, "\(ended.errors)")
        #expect(ended.output.contains("delivered   1"))
        let trace = ended.output.split(separator: "\n").filter { $0.contains("dead0000") }
        #expect(trace.contains { $0.contains("Unregistered") }, "why user 42 did not get it: \(trace)")
        #expect(ended.output.contains("summer-preview"))
        dev.process.signal(SIGINT)
        #expect(await dev.process.waitForExit(within: .seconds(60)) == .code(0))
    }

    @Test func `serves a page that shows the sample data`() async throws {
        let dev = try await start(["--json"])
        let facts = try JSONDecoder().decode([String: String].self, from: Data(dev.folder.read("output").utf8))
        let port = try #require(facts["dashboard"]?.firstMatch(of: /http:\/\/127\.0\.0\.1:(\d+)\//)?.output.1)
        let answer = await PlainClient.exchange(
            "GET /api/campaigns HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                + "Authorization: Bearer \(facts["token_to_read"] ?? "")\r\n\r\n",
            with: .tcp(host: "127.0.0.1", port: try #require(UInt16(port))))
        let rows = try JSONSerialization.jsonObject(with: Data(PlainClient.parse(answer).body.utf8))
        let campaigns = try #require(rows as? [[String: Any]])
        #expect(campaigns.compactMap { $0["key"] as? String } == ["good-morning", "summer-preview", "spring-sale"])
        // The first one is at a local time.
        let states = campaigns.compactMap { $0["state"] as? String }
        #expect(["scheduled", "running"].contains(states.first) && states.dropFirst() == ["running", "finished"])

        let second = try await Executable.pushq.run(["dev", "--port", String(port)], within: .seconds(120))
        #expect(second.code == 1)
        #expect(second.errors.contains("the dashboard does not start") && second.errors.contains(port))

        dev.process.signal(SIGTERM)
        #expect(await dev.process.waitForExit(within: .seconds(60)) == .code(0))
    }

    @Test func `is ended by Ctrl-C while it starts, and that is no error`() async throws {
        let folder = try TemporaryFolder()
        let process = try Executable.pushq.start(
            ["dev", "--port", "0"], output: folder.path("output"), errors: folder.path("errors"))
        try await eventually("it makes the sample data", within: .seconds(60)) {
            folder.read("errors").contains("a worker started")
        }
        process.signal(SIGINT)
        #expect(await process.waitForExit(within: .seconds(60)) == .code(0), "\(folder.read("errors"))")
        #expect(folder.read("output").isEmpty)
    }

    @Test(arguments: [SIGINT, SIGKILL]) func `leaves nothing behind, whatever ends it`(signal: Int32) async throws {
        let dev = try await start(["--json"])
        let url = try #require(dev.folder.read("output").firstMatch(of: /host='([^']+)'/))
        let (socket, output) = (String(url.output.1), dev.folder.read("output"))
        let page = try #require(output.firstMatch(of: /127\.0\.0\.1:(\d+)\//).flatMap { UInt16($0.output.1) })
        #expect(FileManager.default.fileExists(atPath: socket))
        dev.process.signal(signal)
        _ = await dev.process.waitForExit(within: .seconds(60))
        try await eventually("all is gone", within: .seconds(30)) {
            let left = try FileManager.default.contentsOfDirectory(atPath: dev.temporary)
            let answer = await PlainClient.exchange(
                "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", with: .tcp(host: "127.0.0.1", port: page))
            return left.isEmpty && answer.isEmpty && !FileManager.default.fileExists(atPath: socket)
        }
    }
}
