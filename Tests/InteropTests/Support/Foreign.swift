import Foundation
import LocalStack
import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
    /// `scripts/interop` runs these, and installs before what they need. They are nothing for `scripts/test`: the
    /// others' programs would have to be on every machine.
    static var interop: Self {
        .enabled(if: ProcessInfo.processInfo.environment["PUSHQ_INTEROP"] != nil, "scripts/interop runs these")
    }
}

/// A program that somebody else wrote.
struct ForeignProgram: Sendable {
    let path: String
    private let arguments: [String]

    /// One of Debian's.
    init(_ name: String) throws {
        let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        let found = folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        path = try #require(found, "\(name) is not installed; scripts/setup --interop does that")
        arguments = []
    }

    /// A Python program of `Python/`, with the packages of its `requirements.txt`.
    init(python name: String) throws {
        path = try #require(
            ProcessInfo.processInfo.environment["PUSHQ_INTEROP_PYTHON"], "scripts/interop says where Python is")
        arguments = [
            URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../Python/\(name)").standardized.path
        ]
    }

    /// Ends what the tests have started when they end.
    private static let minder = Result { try Minder() }

    /// A command that starts it.
    func command(_ more: [String]) -> ProcessCommand {
        ProcessCommand(path, arguments + more)
    }

    /// Runs it to its end and returns its output. An exit code other than 0 is thrown with what else it said.
    func run(_ arguments: [String]) async throws -> String {
        let folder = try TemporaryFolder()
        var command = command(arguments)
        command.output = .file(folder.path("output"))
        command.errors = .file(folder.path("errors"))
        let exit = await (try Self.minder.get().start(command)).waitForExit()
        guard exit == .code(0) else {
            throw Failed(description: "\(path) \(exit!): \(folder.read("errors")) \(folder.read("output"))")
        }
        return folder.read("output")
    }

    /// It did not exit with 0.
    struct Failed: Error, CustomStringConvertible {
        let description: String
    }
}
