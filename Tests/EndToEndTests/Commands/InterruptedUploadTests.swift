import Foundation
import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Testing

/// A list of tokens is loaded in parts, which count for the tenant's quotas before the campaign is started.
@Suite(.timeLimit(.minutes(10))) struct `A list that is being loaded when Ctrl-C comes` {
    /// Runs `body` with a command that has loaded a part of its list, and reads more from a pipe, to which the file
    /// handle writes.
    private func withHalfALoad(
        _ body: @escaping @Sendable (Shop, ChildProcess, FileHandle) async throws -> Void
    ) async throws {
        try await Shop.open { shop in
            let pipe = shop.folder.path("tokens")
            let made = unsafe mkfifo(pipe, 0o600)
            #expect(made == 0)
            // Closed in the command, or that would wait for itself to write more.
            let writing = unsafe FileHandle(fileDescriptor: open(pipe, O_RDWR | O_CLOEXEC), closeOnDealloc: true)
            let process = try Executable.pushq.start(
                [
                    "campaign", Shop.queue, "--key", "k", "--payload",
                    try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json"), "--tokens", pipe,
                ], environment: shop.environment, output: shop.folder.path("out"), errors: shop.folder.path("err"))
            let tokens = (1...60_000).map { String(format: "%08x\n", $0) }.joined()
            let written = Task.detached { try writing.write(contentsOf: Data(tokens.utf8)) }
            try await eventually("a part is loaded", within: .seconds(60)) {
                try await shop.texts("select count(*)::text as text from pushq.list where token_count >= 50000") == [
                    "1"
                ]
            }
            try await written.value
            try await body(shop, process, writing)
        }
    }

    @Test func `is abandoned, and nothing is started`() async throws {
        try await withHalfALoad { shop, process, writing in
            process.signal(SIGINT)
            let ended = Task { await process.waitForExit(within: .seconds(30)) }
            for number in 1...200 where process.exit == nil {
                try writing.write(contentsOf: Data(String(format: "ff%06x\n", number).utf8))
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(await ended.value == .code(1))
            #expect(shop.folder.read("err").contains("interrupted; this call started no campaign"))
            #expect(try await shop.texts("select abandoned::text as text from pushq.list") == ["true"])
            #expect(try await shop.texts("select count(*)::text as text from pushq.campaign") == ["0"])
        }
    }

    @Test func `is abandoned, also if its last part is being stored`() async throws {
        try await withHalfALoad { shop, process, writing in
            try await shop.withSession { session in
                try await session.runScript("begin; lock table pushq.list_member in exclusive mode")
                try writing.close()
                let waits = """
                    select count(*)::text as text from pg_locks
                    where not granted and relation = 'pushq.list_member'::regclass
                    """
                try await eventually("the last part waits") { try await shop.texts(waits) == ["1"] }
                process.signal(SIGINT)
                // There is no event for a signal that a process has noted and not acted on. Five seconds after it, the
                // command would end without having abandoned the list.
                try await Task.sleep(for: .seconds(2))
                try await session.runScript("rollback")
            }
            #expect(await process.waitForExit(within: .seconds(30)) == .code(1))
            #expect(try await shop.texts("select abandoned::text as text from pushq.list") == ["true"])
            #expect(try await shop.texts("select count(*)::text as text from pushq.campaign") == ["0"])
        }
    }

    @Test func `does not keep the command, though nothing more comes through the pipe`() async throws {
        try await withHalfALoad { _, process, writing in
            process.signal(SIGINT)
            // On a busy machine, the command may notice the signal while it reads the rest.
            let exit = await process.waitForExit(within: .seconds(30))
            #expect(exit == .signal(SIGINT) || exit == .code(1))
            try writing.close()
        }
    }
}
