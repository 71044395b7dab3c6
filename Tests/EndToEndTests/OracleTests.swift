import Foundation
import LocalStack
import TestSupport
import Testing

extension `Real processes that an oracle judges` {
    /// The judge that shares no code with pushq: `Tests/Oracle`, docs/oracle.md.
    @Suite struct `The oracle` {
        @Test func `finds each kind of altered record, and nothing in one that is right`() async throws {
            let ended = try await python(["-m", "unittest", "Oracle.test_judge"])
            #expect(ended.code == 0, "\(ended.errors)")
        }

        @Test func `knows a text of the source for each fault that it is tried with`() async throws {
            let ended = try await python(["-m", "unittest", "Oracle.test_mutants"])
            #expect(ended.code == 0, "\(ended.errors)")
        }

        /// `scripts/repeat-failed` knows this test by its name, and does not run it again: another random episode could
        /// be right. What it finds is kept for whoever looks for the fault.
        @Test func `finds nothing wrong in episodes of some fixed seeds and a random one`() async throws {
            let findings = Self.root.appending(path: ".build/oracle-findings").path
            let ended = try await python([
                "-m", "Oracle", "--short", "--binaries", Executable.folder, "--keep", findings,
            ])
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            #expect(ended.output.contains("5 episodes"))
        }

        /// The folder of the package.
        private static let root = URL(filePath: #filePath).appending(path: "../../..").standardized

        /// Runs Debian's Python interpreter, which has the packages that scripts/setup installs, with the oracle's
        /// package in its path.
        private func python(_ arguments: [String]) async throws -> Executable.Ended {
            let tests = Self.root.appending(path: "Tests").path
            let python = Executable(path: "/usr/bin/python3")
            return try await python.run(["-B"] + arguments, environment: ["PYTHONPATH": tests], within: .seconds(600))
        }
    }
}
