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
            // Not the pages themselves: a failure would print thousands of lines and hide all others.
            let isWritten = written.contains(ended.output)
            let lines = Set(written.split(separator: "\n"))
            let new = ended.output.split(separator: "\n").filter { !lines.contains($0) }
            #expect(isWritten, "docs/cli.md is out of date: run scripts/docs. New lines: \(new.prefix(5))")
        }
    }
}
