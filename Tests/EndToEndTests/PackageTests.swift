import Foundation
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The Debian package` {
    /// What the package of a version says when it is installed.
    /// - Parameter before: the version that was installed before; empty if none was.
    private func saying(_ version: String, after before: String) async throws -> String {
        let file = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "deploy/debian/postinst")
        let script = try String(contentsOf: file, encoding: .utf8).replacing("@VERSION@", with: version)
        // In place of the commands that would change this machine.
        let functions = "adduser() { :; }; install() { :; }; systemctl() { :; }\n"
        let ended = try await Executable(path: "/bin/sh").run([
            "-c", functions + script, "postinst", "configure", before,
        ])
        #expect(ended.code == 0 && ended.output.isEmpty, "\(ended.output) \(ended.errors)")
        return ended.errors
    }

    @Test func `says what comes next, and to an operator who goes back that it is something else`() async throws {
        #expect(try await saying("0.1.0-1", after: "").isEmpty)
        #expect(try await saying("0.1.0-1", after: "0.1.0-1").isEmpty)
        #expect(try await saying("0.10.0-1", after: "0.9.0-1").contains("pushq-admin migrate"))
        let older = try await saying("0.9.0-1", after: "0.10.0-1")
        #expect(older.contains("operating.md, Upgrading, says how to go back"))
        #expect(!older.contains("migrate"), "\(older)")
    }
}
