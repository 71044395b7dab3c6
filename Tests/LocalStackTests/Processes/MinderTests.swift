import Foundation
import Glibc
import Testing
import Transport

@testable import LocalStack

@Suite(.timeLimit(.minutes(10)))
struct `A minder` {
    @Test func `ends what it minds, also what is stopped, and removes folders with blanks`() async throws {
        let minder = try Minder()
        let folder = NSTemporaryDirectory() + "minded by a test \(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        minder.mind(folder: folder)
        let sleeper = try minder.start(ProcessCommand("/bin/sleep", ["600"]), endingWith: SIGTERM)
        let stopped = try minder.start(ProcessCommand("/bin/sleep", ["600"]), endingWith: SIGTERM)
        stopped.signal(SIGSTOP)
        await minder.end()
        #expect(await sleeper.waitForExit(within: .seconds(30)) == .signal(SIGTERM))
        #expect(await stopped.waitForExit(within: .seconds(30)) == .signal(SIGTERM))
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test func `kills what does not end by itself`() async throws {
        let minder = try Minder(patience: .milliseconds(200))
        let channel = try Channel()
        var command = ProcessCommand("/bin/sh", ["-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"])
        command.output = .descriptor(channel.writing.descriptor)
        let deaf = try minder.start(command, endingWith: SIGTERM)
        // The process ignores SIGTERM only after it has printed this.
        #expect(try channel.reading.read(upTo: 5) == Array("deaf\n".utf8))
        await minder.end()
        #expect(await deaf.waitForExit(within: .seconds(30)) == .signal(SIGKILL))
    }

    @Test func `ends what its processes have started in turn`() async throws {
        let minder = try Minder()
        let channel = try Channel()
        var command = ProcessCommand("/bin/sh", ["-c", "sleep 600 >/dev/null & echo $!; exec >/dev/null; wait"])
        command.output = .descriptor(channel.writing.descriptor)
        _ = try minder.start(command)
        channel.writing.close()
        let line = String(decoding: try channel.reading.readToEnd(), as: UTF8.self)
        let grandchild = try #require(Int32(line.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(ProcessTimes.isRunning(grandchild))
        await minder.end()
        let deadline = ContinuousClock.now + .seconds(5)
        while ProcessTimes.isRunning(grandchild), ContinuousClock.now < deadline { await Task.yield() }
        #expect(!ProcessTimes.isRunning(grandchild))
    }

    @Test func `leaves alone a process that has the number of one it minded`() async throws {
        // The script compares start times. A process that is minded with a wrong start time stands for one with a
        // reused ID.
        let bystander = try ChildProcess(ProcessCommand("/bin/sleep", ["600"]))
        defer { bystander.signal(SIGKILL) }
        let minder = try Minder()
        minder.order("child \(bystander.processID) 1 9")
        await minder.end()
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
