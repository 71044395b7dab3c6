import Foundation
import Glibc
import Testing
import Transport

@testable import LocalStack

@Suite(.timeLimit(.minutes(10)))
struct `A reaper` {
    @Test func `ends what it was told of, also what is stopped, and removes folders with blanks`() async throws {
        let reaper = try Reaper()
        let folder = NSTemporaryDirectory() + "registered by a test \(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        reaper.register(folder: folder)
        let sleeper = try reaper.start(ProcessCommand("/bin/sleep", ["600"]), endingWith: SIGTERM)
        let stopped = try reaper.start(ProcessCommand("/bin/sleep", ["600"]), endingWith: SIGTERM)
        stopped.signal(SIGSTOP)
        await reaper.end()
        #expect(await sleeper.waitForExit(within: .seconds(30)) == .signal(SIGTERM))
        #expect(await stopped.waitForExit(within: .seconds(30)) == .signal(SIGTERM))
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test func `ends and removes at once what comes after its own end`() async throws {
        let reaper = try Reaper()
        await reaper.end()
        let sleeper = try reaper.start(ProcessCommand("/bin/sleep", ["600"]))
        #expect(await sleeper.waitForExit(within: .seconds(30)) == .signal(SIGKILL))
        let folder = NSTemporaryDirectory() + "registered too late \(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        reaper.register(folder: folder)
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test func `kills what does not end by itself`() async throws {
        let reaper = try Reaper(patience: .milliseconds(200))
        let pair = try SocketPair()
        var command = ProcessCommand("/bin/sh", ["-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"])
        command.output = .descriptor(pair.writing.descriptor)
        let deaf = try reaper.start(command, endingWith: SIGTERM)
        // The process ignores SIGTERM only after it has printed this.
        #expect(try pair.reading.read(upTo: 5) == Array("deaf\n".utf8))
        await reaper.end()
        #expect(await deaf.waitForExit(within: .seconds(30)) == .signal(SIGKILL))
    }

    @Test func `ends what its processes have started in turn`() async throws {
        let reaper = try Reaper()
        let pair = try SocketPair()
        var command = ProcessCommand("/bin/sh", ["-c", "sleep 600 >/dev/null & echo $!; exec >/dev/null; wait"])
        command.output = .descriptor(pair.writing.descriptor)
        _ = try reaper.start(command)
        pair.writing.close()
        let line = String(decoding: try pair.reading.readToEnd(), as: UTF8.self)
        let grandchild = try #require(Int32(line.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(ProcessTimes.isRunning(grandchild))
        await reaper.end()
        let deadline = ContinuousClock.now + .seconds(5)
        while ProcessTimes.isRunning(grandchild), ContinuousClock.now < deadline { await Task.yield() }
        #expect(!ProcessTimes.isRunning(grandchild))
    }

    @Test func `leaves alone a process that has the number of one it was told of`() async throws {
        // The script compares start times. A process that is registered with a wrong start time stands for one with a
        // reused ID.
        let bystander = try ChildProcess(ProcessCommand("/bin/sleep", ["600"]))
        defer { bystander.signal(SIGKILL) }
        let reaper = try Reaper()
        reaper.order("child \(bystander.processID) 1 9")
        await reaper.end()
        #expect(bystander.exit == nil)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct `A child process` {
    @Test func `reports its exit code, its signal and what it printed`() async throws {
        #expect(try await ProcessCommand("/bin/echo", ["two  words"]).run() == "two  words\n")
        let child = try ChildProcess(ProcessCommand("/bin/sh", ["-c", "exit 7"]))
        #expect(await child.waitForExit() == .code(7))
        #expect(!child.signal(SIGTERM))
        let killed = try ChildProcess(ProcessCommand("/bin/sleep", ["600"]))
        #expect(await killed.waitForExit(within: .milliseconds(10)) == nil)
        killed.signal(SIGKILL)
        #expect(await killed.waitForExit() == .signal(SIGKILL))
    }

    @Test func `that failed is told with the end of what it printed`() async throws {
        let error = await #expect(throws: LocalStackError.self) {
            try await ProcessCommand("/bin/sh", ["-c", "echo the reason; exit 3"]).run()
        }
        #expect(error?.description == "/bin/sh -c echo the reason; exit 3 ended with exit code 3: the reason")
    }

    @Test func `that does not exist is an error at once`() throws {
        #expect(throws: LocalStackError.self) { try ChildProcess(ProcessCommand("/nowhere/at/all")) }
    }
}
