import Foundation
import LocalStack
import TestSupport
import Testing

/// A person who does not know pushq and has only the README: runs its commands word for word, in order.
@Suite(.timeLimit(.minutes(10))) struct `The README` {
    /// The commands after the prompts below a heading, up to the next heading.
    private func commands(below heading: String) throws -> [String] {
        let page = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
        let section = try #require(page.components(separatedBy: "\n## ").first { $0.hasPrefix(heading) })
        return section.split(separator: "\n").map { $0.drop { $0 == " " } }.filter { $0.hasPrefix("$ ") }
            .map { String($0.dropFirst(2)) }
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// Replaces names in the README with the reader's own.
    private func own(_ command: String, _ standIns: [(readme: String, own: String)]) -> String {
        standIns.reduce(command) { $0.replacing($1.readme, with: $1.own) }
    }

    @Test func `leads from an empty database to a delivered push and a campaign, and to the SQL of a program`()
        async throws
    {
        let first = try commands(below: "A first push")
        let next = try commands(below: "Next steps").filter { !$0.contains("broadcast") && !$0.contains("channel") }
        // Building is tested by scripts/release --verify and scripts/bare.
        let build = ["scripts/release", "sudo install -m 755 dist/pushq dist/pushq-admin /usr/local/bin/"]
        #expect(Array(first.prefix(2)) == build)
        #expect(first.count >= 11 && next.count == 4, "the README has other commands now: \(first) \(next)")

        try await withEmptyDatabase { _, database in
            let folder = try TemporaryFolder()
            let url = try await TestServer.shared().connectionString(database: database.name)
            try folder.write("token,user_key\n" + "ab".repeated(32) + ",customer-12\n", to: "devices.csv")
            try folder.write(#"{"aps":{"alert":"Everything at half price"}}"#, to: "payload.json")
            let standIns = [
                ("postgres://pushq@localhost/pushq ", "\"$DATABASE\" "),
                ("AuthKey_ABC123DEFG.p8", "AuthKey_PUSHQSIM01.p8"), ("TEAM123456", "PUSHQTEAM1"),
                ("0123…cdef", "ab".repeated(32)),
            ]
            let steps = (first.dropFirst(2) + next).map { command in
                // The worker gets a shell of its own, and the simulator takes Apple's place, as the README says below.
                // The other shell, in which the reader goes on, does not have what this one has exported.
                command == "pushq work"
                    ? "pushq work --gateway \"$ADDRESS\" --ca pushq-simulator/ca.pem 2>worker.log & worker=$!\n"
                        + "unset PUSHQ_DATABASE_URL PUSHQ_MASTER_KEY_FILE"
                    : own(command, standIns)
            }
            let script = """
                cd \(quoted(folder.path("")))
                pushq simulate --json --port 0 >simulator.out &
                simulator=$!
                worker=
                trap 'kill $worker $simulator; wait' EXIT
                until [ -s simulator.out ]; do sleep 0.05; done
                ADDRESS=$(sed 's/.*"address":"\\([^"]*\\)".*/\\1/' simulator.out)
                cp pushq-simulator/AuthKey_PUSHQSIM01.p8 .
                \(steps.joined(separator: "\n"))
                psql -qXv ON_ERROR_STOP=1 -d "$DATABASE" <<'END'
                create table orders (id int, state text);
                \(try sql())
                END
                """
            let path = "\(Executable.folder):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
            let ended = try await Executable(path: "/bin/bash").run(
                ["-euo", "pipefail", "-c", script], environment: ["PATH": path, "DATABASE": url],
                within: .seconds(180))
            #expect(ended.code == 0, "\(ended.errors)\n\(folder.read("worker.log"))")
            #expect(ended.output.contains("added main; used by acme/com.acme.shop/production"), "\(ended.output)")
            #expect(ended.output.components(separatedBy: "delivered   1").count == 3, "a push and a campaign")
        }
    }

    /// Under a strict umask, the linker makes executables that only their owner may run, and as a copy that is root.
    @Test func `installs executables that everybody may run`() async throws {
        let command = try #require(commands(below: "A first push").first { $0.contains("dist/pushq") })
        let folder = try TemporaryFolder()
        for name in ["dist", "bin"] {
            try FileManager.default.createDirectory(at: folder.url(name), withIntermediateDirectories: false)
        }
        for name in ["pushq", "pushq-admin"] {
            let file = try folder.write("", to: "dist/\(name)")
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: file)
        }
        let standIns = [("sudo ", ""), ("/usr/local/bin/", "bin/")]
        let ended = try await Executable(path: "/bin/sh").run([
            "-c", "cd \(quoted(folder.path(""))) && \(own(command, standIns))",
        ])
        #expect(ended.code == 0, "\(ended.errors)")
        for name in ["pushq", "pushq-admin"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path("bin/\(name)"))
            #expect(attributes[.posixPermissions] as? Int == 0o755)
        }
    }

    /// The README's SQL statements for programs.
    private func sql() throws -> String {
        let page = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
        let blocks = page.components(separatedBy: "```sql\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
        #expect(blocks.count == 2)
        return blocks.joined().replacing("0123…cdef", with: "cd".repeated(32))
    }

    private func quoted(_ path: String) -> String { "'\(path)'" }
}

extension String {
    fileprivate func repeated(_ count: Int) -> String { String(repeating: self, count: count) }
}
