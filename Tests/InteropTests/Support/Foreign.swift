import Foundation
import LocalStack
import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
    /// Enables tests that only `scripts/interop` runs. It installs the programs that they need; `scripts/test` would
    /// need these on every machine.
    static var interop: Self {
        .enabled(if: ProcessInfo.processInfo.environment["PUSHQ_INTEROP"] != nil, "scripts/interop runs these")
    }
}

/// A program of another project.
struct ForeignProgram: Sendable {
    let path: String
    private let arguments: [String]

    /// A program that Debian provides.
    init(_ name: String) throws {
        let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        let found = folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        path = try #require(found, "\(name) is not installed; scripts/setup --interop does that")
        arguments = []
    }

    /// A Python program in `Python/`, with the packages of its `requirements.txt`.
    init(python name: String) throws {
        path = try #require(
            ProcessInfo.processInfo.environment["PUSHQ_INTEROP_PYTHON"], "scripts/interop says where Python is")
        arguments = [
            URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../Python/\(name)").standardized.path
        ]
    }

    /// Ends the processes that the tests have started, when the tests end.
    private static let reaper = Result { try Reaper() }

    /// The command that starts the program.
    func command(_ more: [String]) -> ProcessCommand {
        ProcessCommand(path, arguments + more)
    }

    /// Runs the program to its end and returns its output. Throws its error output if its exit code is not 0.
    func run(_ arguments: [String]) async throws -> String {
        let folder = try TemporaryFolder()
        var command = command(arguments)
        command.output = .file(folder.path("output"))
        command.errors = .file(folder.path("errors"))
        let exit = await (try Self.reaper.get().start(command)).waitForExit()
        guard exit == .code(0) else {
            throw Failed(description: "\(path) \(exit!): \(folder.read("errors")) \(folder.read("output"))")
        }
        return folder.read("output")
    }

    /// The program did not exit with 0.
    struct Failed: Error, CustomStringConvertible {
        let description: String
    }
}
