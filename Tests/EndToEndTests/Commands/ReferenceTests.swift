import Foundation
import TestSupport
import Testing

@Suite struct `The reference of the commands` {
    @Test func `is what the commands say of themselves`() async throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let written = try String(contentsOf: root.appending(path: "docs/cli.md"), encoding: .utf8)
        for executable in [Executable.pushq, .admin] {
            let ended = try await executable.run(["help", "--markdown"])
            #expect(ended.code == 0)
            #expect(written.contains(ended.output), "docs/cli.md is out of date: run scripts/docs")
        }
    }
}
