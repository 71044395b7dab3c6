import Foundation
import LocalStack
import TestSupport
import Testing

/// Runs the steps of `docs/operating.md` for an operator with a server, including those that need an administrator.
@Suite(.timeLimit(.minutes(10))) struct `The page on setting up` {
    private static func blocks() throws -> [String] {
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/operating.md"),
            encoding: .utf8)
        let section = try #require(page.components(separatedBy: "\n## ").first { $0.hasPrefix("Setting up\n") })
        return section.matches(of: #/\n```sh\n(.*?)\n```/#.dotMatchesNewlines()).map { String($0.output.1) }
    }

    @Test func `works to the letter, with a login that is no superuser`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let folder = try TemporaryFolder()
        let blocks = try Self.blocks()
        #expect(blocks.count == 3)
        // psql asks for passwords at the terminal, which a test does not have.
        let question = #/ -c '\\password \w+'\n/#
        let commands = blocks.joined(separator: "\n")
        #expect(commands.matches(of: question).count == 3)
        let script = """
            openssl rand -hex 32 >"$KEY"
            chmod 600 "$KEY"
            \(commands.replacing(question, with: "\n"))
            pushq-admin tenant logins
            """
            // The test server asks for no passwords, and its superuser has the name of the page's login.
            .replacing("--pwprompt pushq", with: "operator").replacing("--owner pushq", with: "--owner operator")
            .replacing(
                "'postgresql://pushq@db.example/push?sslmode=verify-full&sslrootcert=/etc/pushq/db-ca.pem'",
                with: "\"$ADDRESS\""
            )
            .replacing("/etc/pushq/master.key", with: "\"$KEY\"")
        let ended = try await Executable(path: "/bin/bash").run(
            ["-euo", "pipefail", "-c", script],
            environment: [
                "PATH": "\(Executable.folder):\(ProcessInfo.processInfo.environment["PATH"] ?? "")",
                "PGHOST": server.socketFolder, "PGPORT": "5432", "PGUSER": PrivatePostgres.superuser,
                "ADDRESS": server.connectionString(database: "push", user: "operator"),
                "KEY": folder.path("master.key"),
            ], within: .seconds(120))
        #expect(ended.code == 0, "\(ended.output) \(ended.errors)")
        #expect(ended.output.contains("reports") && ended.output.contains("shop"), "\(ended.output)")
        #expect(!ended.output.contains("administrator"), "\(ended.output)")
        try await server.stop(.immediate)
    }
}
